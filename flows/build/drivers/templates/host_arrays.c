/* SPDX-License-Identifier: Apache-2.0 */
/*% block work_at %*/
static void *work_at(const @name@_host *host, size_t at)
{
    return (uint8_t *)host->work + at;
}

/*% endblock %*/
/*% block constant_at %*/
static const void *constant_at(const @name@_host *host, size_t at)
{
    return (const uint8_t *)host->constants + at;
}

/*% endblock %*/
/*% block root %*/
static float neighbour(float x, int above)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    bits = above ? bits + 1u : bits - 1u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The root of a number, rounded as IEEE 754 says: products of 25 bits are exact. */
static float root(float x)
{
    double wide = (double)x, middle;
    float found, other;

    if (!(x > 0.0f))
        return x == 0.0f ? x : (float)double_of(INT64_C(0x7ff8000000000000));
    if (x > FLT_MAX)
        return x;
    found = (float)(wide * inverse_root_of(wide));
    other = neighbour(found, 1);
    middle = 0.5 * ((double)found + (double)other);
    if (middle * middle < wide)
        return other;
    other = neighbour(found, 0);
    middle = 0.5 * ((double)found + (double)other);
    return middle * middle > wide ? other : found;
}

/*% endblock %*/
/*% block even_of %*/
/* Round to an integer, halves to even; from 2^23 on all numbers are integers. */
static float even_of(float x)
{
    return x < 8388608.0f && x > -8388608.0f ? (float)(((double)x + ROUND) - ROUND) : x;
}

/*% endblock %*/
/*% block floor_of %*/
static float floor_of(float x)
{
    float found = even_of(x);

    return found > x ? found - 1.0f : found;
}

/*% endblock %*/
/*% block ceil_of %*/
static float ceil_of(float x)
{
    float found = even_of(x);

    return found < x ? found + 1.0f : found;
}

/*% endblock %*/
/*% block cut_of %*/
static float cut_of(float x)
{
    return x < 0.0f ? ceil_of(x) : floor_of(x);
}

/*% endblock %*/
/*% block within %*/
static float within(float x, float low, float high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}

/*% endblock %*/
/*% block within_integers %*/
static int64_t within_integers(int64_t x, int64_t low, int64_t high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}

/*% endblock %*/
/*% block code_of %*/
/* An integer within limits; 0 of what is no number. */
static int32_t code_of(float x, float low, float high)
{
    x = within(x, low, high);
    return x != x ? 0 : (int32_t)x;
}

/*% endblock %*/
/*% block whole_of %*/
/* A number without what follows its point, within limits; 0 of what is no number. */
static int64_t whole_of(float x, int64_t low, int64_t high)
{
    double wide = (double)x;

    if (wide != wide)
        return 0;
    if (wide < (double)low)
        return low;
    return wide < (double)high + 1.0 ? (int64_t)wide : high;
}

/*% endblock %*/
/*% block walk %*/
/* Elements in the order of a result, and how far it is from one to the next in up to three arrays. */
typedef struct {
    uint32_t axes;
    uint32_t lengths[AXES];
    ptrdiff_t steps[3][AXES];
} walk;

typedef struct {
    ptrdiff_t places[3];
    uint32_t at[AXES];
} cursor;

static void advance(const walk *form, cursor *here)
{
    uint32_t axis = form->axes, i;

    while (axis-- > 0u) {
        for (i = 0; i < 3u; i++)
            here->places[i] += form->steps[i][axis];
        if (++here->at[axis] < form->lengths[axis])
            return;
        here->at[axis] = 0;
        for (i = 0; i < 3u; i++)
            here->places[i] -= form->steps[i][axis] * (ptrdiff_t)form->lengths[axis];
    }
}

/*% endblock %*/
/*% block copy %*/
/* Copy elements of 1, 4 or 8 bytes. */
static void copy(size_t count, size_t size, const walk *form, const void *from, void *to)
{
    const uint8_t *x = (const uint8_t *)from;
    uint8_t *z = (uint8_t *)to;
    cursor here = {{0}, {0}};
    size_t i;

    for (i = 0; i < count; i++) {
        const uint8_t *source = x + here.places[0] * (ptrdiff_t)size;
        uint8_t *target = z + here.places[1] * (ptrdiff_t)size;

        if (size == 4u)
            memcpy(target, source, 4);
        else if (size == 1u)
            *target = *source;
        else
            memcpy(target, source, size);
        advance(form, &here);
    }
}

/*% endblock %*/
/*% block fill %*/
static void fill(size_t count, size_t size, const void *value, void *to)
{
    uint8_t *z = (uint8_t *)to;
    size_t i;

    for (i = 0; i < count; i++)
        memcpy(z + i * size, value, size);
}

/*% endblock %*/
/*% block join %*/
/* Put one part of each row of bytes where it belongs. */
static void join(size_t rows, size_t part, size_t all, const void *from, void *to)
{
    const uint8_t *x = (const uint8_t *)from;
    uint8_t *z = (uint8_t *)to;
    size_t row;

    for (row = 0; row < rows; row++)
        memcpy(z + row * all, x + row * part, part);
}

/*% endblock %*/
/*% block index_at %*/
static int64_t index_at(const void *indices, size_t width, size_t at)
{
    int64_t wide;
    int32_t narrow;

    if (width == sizeof wide) {
        memcpy(&wide, (const uint8_t *)indices + at * width, sizeof wide);
        return wide;
    }
    memcpy(&narrow, (const uint8_t *)indices + at * width, sizeof narrow);
    return narrow;
}

/*% endblock %*/
/*% block gather %*/
/* Parts of `inner` bytes by number; negative numbers count from the end. */
static int gather(size_t outer, int64_t length, size_t inner, size_t count, size_t width,
                  const void *indices, const void *from, void *to)
{
    const uint8_t *x = (const uint8_t *)from;
    uint8_t *z = (uint8_t *)to;
    size_t row, i;

    for (row = 0; row < outer; row++, x += (size_t)length * inner)
        for (i = 0; i < count; i++, z += inner) {
            int64_t index = index_at(indices, width, i);

            if (index < -length || index >= length)
                return @NAME@_E_INDEX;
            memcpy(z, x + (size_t)(index < 0 ? index + length : index) * inner, inner);
        }
    return @NAME@_OK;
}

/*% endblock %*/
/*% block gather_places %*/
/* Parts of `inner` bytes by their places along several axes. */
static int gather_places(const int64_t *lengths, size_t axes, size_t inner, size_t count,
                         size_t width, const void *indices, const void *from, void *to)
{
    const uint8_t *x = (const uint8_t *)from;
    uint8_t *z = (uint8_t *)to;
    size_t i, axis;

    for (i = 0; i < count; i++, z += inner) {
        int64_t place = 0;

        for (axis = 0; axis < axes; axis++) {
            int64_t index = index_at(indices, width, i * axes + axis);

            if (index < -lengths[axis] || index >= lengths[axis])
                return @NAME@_E_INDEX;
            place = place * lengths[axis] + (index < 0 ? index + lengths[axis] : index);
        }
        memcpy(z, x + (size_t)place * inner, inner);
    }
    return @NAME@_OK;
}

/*% endblock %*/
/*% block windows %*/
/* Windows along the last three axes. */
typedef struct {
    uint32_t planes, channels; /* channels of all frames, and of one */
    uint32_t lengths[3], counts[3], kernel[3], strides[3], dilations[3], before[3];
} windows;

/* The place that an element of a window has, -1 outside. */
static ptrdiff_t place_of(const windows *form, const uint32_t *window, const uint32_t *tap)
{
    ptrdiff_t place = 0;
    uint32_t axis;

    for (axis = 0; axis < 3u; axis++) {
        ptrdiff_t at = (ptrdiff_t)window[axis] * (ptrdiff_t)form->strides[axis] +
                       (ptrdiff_t)tap[axis] * (ptrdiff_t)form->dilations[axis] -
                       (ptrdiff_t)form->before[axis];

        if (at < 0 || at >= (ptrdiff_t)form->lengths[axis])
            return -1;
        place = place * (ptrdiff_t)form->lengths[axis] + at;
    }
    return place;
}

/* The next one of some places; 0 behind the last. */
static int next_of(const uint32_t *counts, uint32_t *at)
{
    uint32_t axis = 3;

    while (axis-- > 0u) {
        if (++at[axis] < counts[axis])
            return 1;
        at[axis] = 0;
    }
    return 0;
}

/*% endblock %*/
/*% block patches %*/
/* Each window as a row, channel by channel. */
static void patches(const windows *form, size_t size, const void *outside, const void *from,
                    void *to)
{
    const size_t plane = (size_t)form->lengths[0] * form->lengths[1] * form->lengths[2] * size;
    uint32_t window[3] = {0, 0, 0}, tap[3] = {0, 0, 0}, frame, channel;
    uint8_t *z = (uint8_t *)to;

    for (frame = 0; frame < form->planes / form->channels; frame++) {
        const uint8_t *first = (const uint8_t *)from + (size_t)frame * form->channels * plane;

        do {
            for (channel = 0; channel < form->channels; channel++) {
                const uint8_t *x = first + channel * plane;

                do {
                    ptrdiff_t place = place_of(form, window, tap);
                    const void *found = place < 0 ? outside : x + (size_t)place * size;

                    memcpy(z, found, size);
                    z += size;
                } while (next_of(form->kernel, tap));
            }
        } while (next_of(form->counts, window));
    }
}

/*% endblock %*/
/*% block mean_window %*/
static void mean_window(const windows *form, int padded, const float *x, float *z)
{
    const size_t plane = (size_t)form->lengths[0] * form->lengths[1] * form->lengths[2];
    uint32_t window[3] = {0, 0, 0}, tap[3] = {0, 0, 0}, channel;

    for (channel = 0; channel < form->planes; channel++, x += plane)
        do {
            double sum = 0.0, inside = 0.0;

            do {
                ptrdiff_t place = place_of(form, window, tap);

                if (place >= 0)
                    sum = sum + (double)x[place];
                if (place >= 0 || padded)
                    inside = inside + 1.0;
            } while (next_of(form->kernel, tap));
            *z++ = (float)(sum / inside);
        } while (next_of(form->counts, window));
}

/*% endblock %*/
/*% block softmax %*/
static void softmax(size_t lines, const walk *outer, size_t count, ptrdiff_t step, const float *x,
                    float *z)
{
    cursor line = {{0}, {0}};
    size_t each;
    ptrdiff_t i, end = (ptrdiff_t)count * step;

    for (each = 0; each < lines; each++, advance(outer, &line)) {
        const float *row = x + line.places[0];
        float *result = z + line.places[0];
        double most = (double)row[0], sum = 0.0;

        for (i = 0; i < end; i += step)
            most = (double)row[i] > most ? (double)row[i] : most;
        for (i = 0; i < end; i += step)
            sum = sum + exponential_of((double)row[i] - most);
        for (i = 0; i < end; i += step)
            result[i] = (float)(exponential_of((double)row[i] - most) / sum);
    }
}

/*% endblock %*/
/*% block halved %*/
/* x / 2^places, rounded down. */
static int64_t halved(int64_t x, int32_t places)
{
    return x >= 0 ? x >> places : ~(~x >> places);
}

/*% endblock %*/
/*% block rescaled_once %*/
/* x * multiplier / 2^(31 - shift), halves up. */
static int64_t rescaled_once(int32_t x, int32_t multiplier, int32_t shift)
{
    int32_t places = 31 - shift;

    return halved((int64_t)x * multiplier + (INT64_C(1) << (places - 1)), places);
}

/*% endblock %*/
/*% block rescaled_twice %*/
/* The same, rounded halves up as it is divided by 2^31, and away from 0 behind that. */
static int64_t rescaled_twice(int32_t x, int32_t multiplier, int32_t shift)
{
    int32_t left = shift > 0 ? shift : 0, right = left - shift;
    int64_t wide = (int64_t)(int32_t)((uint32_t)x << left) * multiplier;
    int64_t high = halved(wide + (INT64_C(1) << 30), 31);
    int64_t mask = (INT64_C(1) << right) - 1;

    return halved(high, right) + ((high & mask) > (mask >> 1) + (high < 0));
}

/*% endblock %*/
/*% block high_product %*/
/* x * y / 2^31, halves up. */
static int64_t high_product(int64_t x, int64_t y)
{
    return halved(x * y + (INT64_C(1) << 30), 31);
}

/*% endblock %*/
/*% block table_softmax %*/
static void table_softmax(size_t rows, size_t length, const int8_t *x, const int32_t *table,
                          int8_t *z)
{
    size_t row, i;

    for (row = 0; row < rows; row++, x += length, z += length) {
        int32_t most = x[0], digits = 0, turn;
        int64_t sum = 0, half, factor;

        for (i = 0; i < length; i++)
            most = x[i] > most ? x[i] : most;
        for (i = 0; i < length; i++)
            sum += ((int64_t)table[255 + x[i] - most] + 2048) >> 12;
        while (sum >> digits != 0)
            digits++;
        /* Newton's rule for 1 / (1 + fraction): 48/17 - 32/17 of a half of that begins. */
        half = (sum << (32 - digits)) >> 1;
        factor = 1515870810 + high_product(half, -1010580540);
        for (turn = 0; turn < 3; turn++)
            factor += high_product(factor, (INT64_C(1) << 29) - high_product(half, factor)) * 4;
        factor = factor >= INT64_C(1) << 30 ? INT64_C(2147483647) : factor * 2;
        for (i = 0; i < length; i++) {
            int64_t share = high_product(table[255 + x[i] - most], factor);

            share = halved(share + (INT64_C(1) << (digits + 2)), digits + 3);
            z[i] = (int8_t)within_integers(share - 128, -128, 127);
        }
    }
}

/*% endblock %*/
/*% block layer_norm %*/
static void layer_norm(size_t rows, size_t length, const float *x, const float *gamma,
                       const float *beta, double epsilon, float *z)
{
    size_t row, i;

    for (row = 0; row < rows; row++, x += length, z += length) {
        double sum = 0.0, squares = 0.0, mean, factor;

        for (i = 0; i < length; i++)
            sum = sum + (double)x[i];
        mean = sum / (double)length;
        for (i = 0; i < length; i++)
            squares = squares + ((double)x[i] - mean) * ((double)x[i] - mean);
        factor = inverse_root_of(squares / (double)length + epsilon);
        for (i = 0; i < length; i++)
            z[i] = (float)(((double)x[i] - mean) * factor * (double)gamma[i] + (double)beta[i]);
    }
}

/*% endblock %*/
/*% block dynamic_range %*/
/* Scale and zero point that numbers are quantised by. */
static int dynamic_range(size_t count, const float *x, float *scale, uint8_t *zero)
{
    float low = 0.0f, high = 0.0f;
    size_t i;

    for (i = 0; i < count; i++) {
        if (!(x[i] <= FLT_MAX && x[i] >= -FLT_MAX))
            return @NAME@_E_NUMBER;
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    *scale = low < high ? (high - low) / 255.0f : 1.0f;
    if (*scale == 0.0f)
        return @NAME@_E_NUMBER;
    *zero = (uint8_t)code_of(even_of(within(0.0f - low / *scale, 0.0f, 255.0f)), 0.0f, 255.0f);
    return @NAME@_OK;
}

/*% endblock %*/
/*% block dynamic_codes %*/
static int dynamic_codes(size_t count, const float *x, uint8_t *z)
{
    float scale = 1.0f;
    uint8_t zero = 0;
    int status = dynamic_range(count, x, &scale, &zero);
    size_t i;

    for (i = 0; i < count && status == @NAME@_OK; i++)
        z[i] = (uint8_t)code_of(even_of(x[i] / scale) + (float)zero, 0.0f, 255.0f);
    return status;
}

/*% endblock %*/
/*% block dynamic_scale %*/
static int dynamic_scale(size_t count, const float *x, float *z)
{
    uint8_t zero;

    return dynamic_range(count, x, z, &zero);
}

/*% endblock %*/
/*% block dynamic_zero %*/
static int dynamic_zero(size_t count, const float *x, uint8_t *z)
{
    float scale;

    return dynamic_range(count, x, &scale, z);
}

/*% endblock %*/
/*% block scale_of %*/
/* What numbers of a row or a column, `step` apart, are divided by. */
static float scale_of(const float *x, size_t count, size_t step)
{
    float most = 0.0f;
    size_t i;

    for (i = 0; i < count; i++) {
        float size = x[i * step] < 0.0f ? -x[i * step] : x[i * step];

        most = size > most ? size : most;
    }
    return most * @CODE_STEP@;
}

/*% endblock %*/
/*% block row_code %*/
static int8_t row_code(float x, float scale)
{
    return (int8_t)code_of(even_of(x / (scale == 0.0f ? 1.0f : scale)), -127.0f, 127.0f);
}

/*% endblock %*/
/*% block quantise %*/
static void quantise(size_t rows, size_t length, const float *x, int8_t *codes, float *scales)
{
    size_t row, i;

    for (row = 0; row < rows; row++, x += length, codes += length) {
        scales[row] = scale_of(x, length, 1);
        for (i = 0; i < length; i++)
            codes[i] = row_code(x[i], scales[row]);
    }
}

/*% endblock %*/
/*% block product %*/
/* Jobs of one shape. */
typedef struct {
    uint32_t job, parts;
    uint32_t m, k, n;
    uint32_t stride; /* of the right operand in the engine's memory */
} product;

/*% endblock %*/
/*% block store_codes %*/
/* Put integers into the engine's memory; `flip` makes int8 of uint8. */
static void store_codes(const @name@_host *host, uint64_t address, const uint8_t *x, size_t count,
                        uint8_t flip)
{
    uint8_t piece[PIECE];
    size_t at, i;

    for (at = 0; at < count; at += PIECE) {
        size_t part = count - at < (size_t)PIECE ? count - at : (size_t)PIECE;

        for (i = 0; i < part; i++)
            piece[i] = (uint8_t)(x[at + i] ^ flip);
        host->store(host->context, address + at, piece, (uint32_t)part);
    }
}

/*% endblock %*/
/*% block submit %*/
/*% include "pieces/submit.c" %*/

/*% endblock %*/
/*% block multiply %*/
/* Do jobs, as many at once as the queue takes, and load their sums. */
static int multiply(const @name@_host *host, const product *form, void *sums)
{
    const size_t bytes = 4u * (size_t)form->parts * form->m * form->n;
    uint32_t sent = 0, waiting = 0, first = 0, ticket = 0;
    int status = @NAME@_OK;
    size_t at;

    while (sent < form->parts || waiting != 0u) {
        while (sent < form->parts) {
            status = submit(host, form->job + sent, &ticket);
            if (status != @NAME@_OK)
                break;
            sent++;
            if (waiting++ == 0u)
                first = ticket;
        }
        if (status != @NAME@_OK && (status != @NAME@_E_FULL || waiting == 0u))
            return status;
        status = @name@_wait(host->device, first++, host->polls);
        if (status != @NAME@_OK)
            return status;
        waiting--;
    }
    for (at = 0; at < bytes; at += PIECE)
        host->load(host->context, SUMS + at, (uint8_t *)sums + at,
                   (uint32_t)(bytes - at < (size_t)PIECE ? bytes - at : (size_t)PIECE));
    return @NAME@_OK;
}

/*% endblock %*/
/*% block corrected %*/
/* What zero points add to sums, and a bias; arrays may be NULL. All of it modulo 2^32. */
static void corrected(const product *form, const uint8_t *x, uint8_t flip, int32_t x_zero,
                      const int32_t *columns, const int32_t *zeros, size_t zero_step,
                      const int32_t *bias, int32_t *z)
{
    size_t row, part, i;

    for (row = 0; row < form->m; row++)
        for (part = 0; part < form->parts; part++, x += form->k, z += form->n) {
            uint32_t sum = 0;

            if (zeros != NULL) {
                for (i = 0; i < form->k; i++) {
                    int32_t code = (int8_t)(x[i] ^ flip);

                    sum += (uint32_t)code;
                }
                sum -= form->k * (uint32_t)x_zero;
            }
            for (i = 0; i < form->n; i++) {
                size_t at = part * form->n + i;
                uint32_t found = (uint32_t)z[i];

                if (columns != NULL)
                    found -= (uint32_t)x_zero * (uint32_t)columns[at];
                if (zeros != NULL)
                    found -= sum * (uint32_t)zeros[at * zero_step];
                if (bias != NULL)
                    found += (uint32_t)bias[at];
                z[i] = (int32_t)found;
            }
        }
}

/*% endblock %*/
/*% block scaled %*/
/* Make numbers of sums in place. */
static void scaled(size_t rows, size_t n, const float *row_scales, const float *scales,
                   const float *bias, float *z)
{
    size_t row, i;

    for (row = 0; row < rows; row++, z += n)
        for (i = 0; i < n; i++) {
            int32_t sum;

            memcpy(&sum, &z[i], sizeof sum);
            z[i] = (float)sum * row_scales[row] * scales[i];
            if (bias != NULL)
                z[i] = z[i] + bias[i];
        }
}

/*% endblock %*/
/*% block integer_gemm %*/
static int integer_gemm(const @name@_host *host, const product *form, const void *from,
                        uint8_t flip, int32_t x_zero, const int32_t *columns,
                        const int32_t *zeros, const int32_t *bias, int32_t *z)
{
    const uint8_t *x = (const uint8_t *)from;
    int status;

    store_codes(host, ROWS, x, (size_t)form->m * form->parts * form->k, flip);
    status = multiply(host, form, z);
    if (status == @NAME@_OK)
        corrected(form, x, flip, x_zero, columns, zeros, 1, bias, z);
    return status;
}

/*% endblock %*/
/*% block gemm %*/
static int gemm(const @name@_host *host, const product *form, const int8_t *x,
                const float *row_scales, const float *scales, const float *bias, float *z)
{
    int status;

    store_codes(host, ROWS, (const uint8_t *)x, (size_t)form->m * form->parts * form->k, 0);
    status = multiply(host, form, z);
    if (status == @NAME@_OK)
        scaled(form->m, (size_t)form->parts * form->n, row_scales, scales, bias, z);
    return status;
}

/*% endblock %*/
/*% block integer_matmul %*/
static int integer_matmul(const @name@_host *host, const product *form, const walk *batch,
                          const void *left, uint8_t x_flip, int32_t x_zero, const void *right,
                          uint8_t y_flip, int32_t y_zero, int32_t *columns, int32_t *z)
{
    const size_t m = form->m, k = form->k, n = form->n;
    product one = *form;
    cursor here = {{0}, {0}};
    size_t part, row, i;
    int status;

    memset(columns, 0, form->parts * n * sizeof *columns);
    for (part = 0; part < form->parts; part++, advance(batch, &here)) {
        const uint8_t *x = (const uint8_t *)left + here.places[0];
        const uint8_t *y = (const uint8_t *)right + here.places[1];

        store_codes(host, ROWS + part * m * k, x, m * k, x_flip);
        for (row = 0; row < k; row++, y += n) {
            store_codes(host, COLUMNS + (part * k + row) * form->stride, y, n, y_flip);
            for (i = 0; i < n; i++)
                columns[part * n + i] += (int8_t)(y[i] ^ y_flip);
        }
    }
    status = multiply(host, form, z);
    one.parts = 1;
    for (part = 0; part < form->parts && status == @NAME@_OK; part++, advance(batch, &here))
        corrected(&one, (const uint8_t *)left + here.places[0], x_flip, x_zero, columns + part * n,
                  &y_zero, 0, NULL, z + part * m * n);
    return status;
}

/*% endblock %*/
/*% block matmul %*/
static int matmul(const @name@_host *host, const product *form, const walk *batch,
                  const float *left, const float *right, int8_t *codes, float *row_scales,
                  float *column_scales, float *z)
{
    const size_t m = form->m, k = form->k, n = form->n;
    cursor here = {{0}, {0}};
    size_t part, row, at, i;
    int8_t piece[PIECE];
    int status;

    for (part = 0; part < form->parts; part++, advance(batch, &here)) {
        const float *y = right + here.places[1];
        float *scales = column_scales + part * n;

        quantise(m, k, left + here.places[0], codes + part * m * k, row_scales + part * m);
        for (i = 0; i < n; i++)
            scales[i] = scale_of(y + i, k, n);
        for (row = 0; row < k; row++, y += n)
            for (at = 0; at < n; at += PIECE) {
                size_t count = n - at < (size_t)PIECE ? n - at : (size_t)PIECE;

                for (i = 0; i < count; i++)
                    piece[i] = row_code(y[at + i], scales[at + i]);
                host->store(host->context, COLUMNS + (part * k + row) * form->stride + at, piece,
                            (uint32_t)count);
            }
    }
    store_codes(host, ROWS, (const uint8_t *)codes, form->parts * m * k, 0);
    status = multiply(host, form, z);
    for (part = 0; part < form->parts && status == @NAME@_OK; part++)
        scaled(m, n, row_scales + part * m, column_scales + part * n, NULL, z + part * m * n);
    return status;
}
/*% endblock %*/
