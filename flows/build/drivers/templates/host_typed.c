/* SPDX-License-Identifier: Apache-2.0 */
/*% block largest_window %*/
static void largest_window(const windows *form, const @TYPE@ *x, @TYPE@ *z)
{
    const size_t plane = (size_t)form->lengths[0] * form->lengths[1] * form->lengths[2];
    uint32_t window[3] = {0, 0, 0}, tap[3] = {0, 0, 0}, channel;

    for (channel = 0; channel < form->planes; channel++, x += plane)
        do {
            @TYPE@ most = @LEAST@;

            do {
                ptrdiff_t place = place_of(form, window, tap);

                if (place >= 0 && x[place] > most)
                    most = x[place];
            } while (next_of(form->kernel, tap));
            *z++ = (@TYPE@)(most + 0);
        } while (next_of(form->counts, window));
}

/*% endblock %*/
/*% block reduced_largest %*/
static void reduced_largest(size_t lines, const walk *outer, size_t count, const walk *inner,
                            const @TYPE@ *x, @TYPE@ *z)
{
    cursor line = {{0}, {0}};
    size_t each, i;

    for (each = 0; each < lines; each++, advance(outer, &line)) {
        const @TYPE@ *first = x + line.places[0];
        cursor here = {{0}, {0}};
        @TYPE@ found = first[0];

        for (i = 0; i < count; i++, advance(inner, &here))
            found = first[here.places[0]] @ORDER@ found ? first[here.places[0]] : found;
        z[each] = (@TYPE@)(found + 0);
    }
}

/*% endblock %*/
/*% block reduced_sum %*/
static void reduced_sum(size_t lines, const walk *outer, size_t count, const walk *inner,
                        const @TYPE@ *x, @RESULT@ *z)
{
    cursor line = {{0}, {0}};
    size_t each, i;

    for (each = 0; each < lines; each++, advance(outer, &line)) {
        const @TYPE@ *first = x + line.places[0];
        cursor here = {{0}, {0}};
        @WIDE@ found = 0;

        for (i = 0; i < count; i++, advance(inner, &here))
            found = found + (@WIDE@)first[here.places[0]];
        z[each] = (@RESULT@)(@FOUND@);
    }
}

/*% endblock %*/
