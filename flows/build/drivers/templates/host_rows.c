/* SPDX-License-Identifier: Apache-2.0 */
/*% block rms_norm %*/
static void rms_norm(uint32_t rows, size_t length, const float *x, const float *gamma,
                     double epsilon, float *output)
{
    size_t row, i;

    for (row = 0; row < rows; row++, x += length, output += length) {
        double sum = 0.0, factor;

        for (i = 0; i < length; i++)
            sum = sum + (double)x[i] * (double)x[i];
        factor = inverse_root_of(sum / (double)length + epsilon);
        for (i = 0; i < length; i++)
            output[i] = (float)((double)x[i] * factor * (double)gamma[i]);
    }
}

/*% endblock %*/
/*% block layer_norm %*/
static void layer_norm(uint32_t rows, size_t length, const float *x, const float *gamma,
                       const float *beta, double epsilon, float *output)
{
    size_t row, i;

    for (row = 0; row < rows; row++, x += length, output += length) {
        double sum = 0.0, squares = 0.0, mean, factor;

        for (i = 0; i < length; i++)
            sum = sum + (double)x[i];
        mean = sum / (double)length;
        for (i = 0; i < length; i++)
            squares = squares + ((double)x[i] - mean) * ((double)x[i] - mean);
        factor = inverse_root_of(squares / (double)length + epsilon);
        for (i = 0; i < length; i++)
            output[i] = (float)(((double)x[i] - mean) * factor * (double)gamma[i]
                                + (double)beta[i]);
    }
}

/*% endblock %*/
/*% block rope %*/
static void rope(uint32_t rows, size_t length, size_t elements, const float *x, const float *turns,
                 float *output)
{
    size_t row, head, i;

    for (row = 0; row < rows; row++, turns += elements)
        for (head = 0; head < length; head += elements, x += elements, output += elements)
            for (i = 0; i < elements; i += 2u) {
                double u = (double)x[i], w = (double)x[i + 1u];
                double c = (double)turns[i], s = (double)turns[i + 1u];

                output[i] = (float)(u * c - w * s);
                output[i + 1u] = (float)(w * c + u * s);
            }
}

/*% endblock %*/
/*% block gated %*/
static void gated(uint32_t rows, size_t length, double (*gate)(double), const float *x,
                  const float *y, float *output)
{
    size_t i, all = rows * length;

    for (i = 0; i < all; i++)
        output[i] = (float)(gate((double)x[i]) * (double)y[i]);
}

/*% endblock %*/
/*% block add %*/
static void add(uint32_t rows, size_t length, const float *x, const float *y, float *output)
{
    size_t i, all = rows * length;

    for (i = 0; i < all; i++)
        output[i] = x[i] + y[i];
}

/*% endblock %*/
/*% block add_scaled %*/
static void add_scaled(uint32_t rows, size_t length, const float *x, double scale, const float *y,
                       float *output)
{
    size_t i, all = rows * length;

    for (i = 0; i < all; i++)
        output[i] = (float)((double)x[i] * scale + (double)y[i]);
}

/*% endblock %*/
/*% block soft_cap %*/
static void soft_cap(uint32_t rows, size_t length, const float *x, double cap, float *output)
{
    size_t i, all = rows * length;

    for (i = 0; i < all; i++)
        output[i] = (float)(tanh_of((double)x[i] / cap) * cap);
}

/*% endblock %*/
/*% block attention %*/
/* Put heads of a row into a cache, as integers with a scale each. */
static void keep(const float *x, const attention *one, size_t block, uint32_t position,
                 int8_t *codes, float *scales)
{
    uint32_t head;

    for (head = 0; head < one->kv_heads; head++) {
        size_t place = (size_t)head * @NAME@_MODEL_CONTEXT + position;

        scales[place] = quantise_row(x + (size_t)head * one->elements, one->elements, block,
                                     codes + place * one->elements);
    }
}

/* Attention of a head of queries to positions from `begin` up to `end`. */
static void attend(const @name@_host *host, const attention *one, size_t place, uint32_t begin,
                   uint32_t end, const float *query, float *output)
{
    int8_t *codes = codes_of(host, @QUERIES@);
    double *scores = (double *)(void *)work_of(host, @SCORES@);
    const float *key_scales = work_of(host, one->key_scales) + place;
    const float *value_scales = work_of(host, one->value_scales) + place;
    const int8_t *keys = codes_of(host, one->keys) + place * one->elements;
    const int8_t *values = codes_of(host, one->values) + place * one->elements;
    double scale = (double)quantise_row(query, one->elements, one->hadamard, codes) * one->scale;
    double most = 0.0, sum = 0.0;
    uint32_t at;
    size_t i;

    for (at = begin; at < end; at++) {
        const int8_t *key = keys + (size_t)at * one->elements;
        int32_t product_of = 0;

        for (i = 0; i < one->elements; i++)
            product_of += codes[i] * key[i];
        scores[at] = (double)product_of * (scale * (double)key_scales[at]);
/*% if CAPPED %*/
        if (one->cap != 0.0)
            scores[at] = tanh_of(scores[at] / one->cap) * one->cap;
/*% endif %*/
        most = at == begin ? scores[at] : larger(scores[at], most);
    }
    for (at = begin; at < end; at++) {
        scores[at] = exponential_of(scores[at] - most);
        sum = sum + scores[at];
        scores[at] = scores[at] * (double)value_scales[at];
    }
    for (i = 0; i < one->elements; i++) {
        double found = 0.0;

        for (at = begin; at < end; at++)
            found = found + scores[at] * (double)values[(size_t)at * one->elements + i];
        output[i] = (float)(found / sum);
    }
}

static void attention_of(const @name@_host *host, const attention *form, uint32_t layer,
                         uint32_t position, uint32_t rows)
{
    attention one = *form;
    size_t keys = (size_t)one.kv_heads * one.elements, step = layer * one.step;
    size_t queries = (size_t)one.heads * one.elements;
    uint32_t row, head;

    one.keys += step;
    one.values += step;
    one.key_scales += step;
    one.value_scales += step;
    for (row = 0; row < rows; row++) {
        keep(work_of(host, one.key) + row * keys, &one, one.hadamard, position + row,
             codes_of(host, one.keys), work_of(host, one.key_scales));
        keep(work_of(host, one.value) + row * keys, &one, 0u, position + row,
             codes_of(host, one.values), work_of(host, one.value_scales));
    }
    for (row = 0; row < rows; row++) {
        uint32_t end = position + row + 1u;
        uint32_t begin = one.window != 0u && end > one.window ? end - one.window : 0u;

        for (head = 0; head < one.heads; head++) {
            size_t at = row * queries + (size_t)head * one.elements;
            size_t kv_head = head / (one.heads / one.kv_heads);

            attend(host, &one, kv_head * @NAME@_MODEL_CONTEXT, begin, end,
                   work_of(host, one.query) + at, work_of(host, one.output) + at);
        }
    }
}

/*% endblock %*/
