/* The plan: hwgen/families/gemm_stream/blocks.py says what is chosen, and has the same functions. */

static uint32_t next_larger(uint32_t all, uint32_t block)
{
    uint32_t blocks = ceil_div(all, block + block / FINEST);

    return blocks > 1u ? ceil_div(all, blocks - 1u) : 0u;
}

static uint32_t most_columns(const @name@_job *job)
{
    return job->post.columns != 0u ? smaller(MOST_N, RECORD_TILES) : (uint32_t)MOST_N;
}

/* Whether a block of so many tiles has the whole reduction: 2 is that one tile may have a part. */
static int whole_k(uint32_t m, uint32_t n)
{
    return WHOLE_K == 1 || (WHOLE_K == 2 && (m > 1u || n > 1u));
}

static uint32_t longest(const @name@_job *job, const @name@_blocks *block, uint32_t m, uint32_t n)
{
    const format *of = format_of(job);
    uint32_t words = ceil_div(n * WEIGHT_BEATS, of->wgt_beats) * of->weight_rows;
    uint32_t act_depth = ACT_DEPTH * (block->a_whole ? 2u : 1u);
    uint32_t wgt_depth = WGT_DEPTH * (block->w_whole ? 2u : 1u);
    uint32_t of_a = act_depth / m * of->act_beats / of->k_beats;

    if (WEIGHT_COLUMNS)
        return smaller(of_a, wgt_depth / n * of->wgt_beats / of->weight_rows);
    return smaller(of_a, wgt_depth / words);
}

static counts counts_of(const tiles *all, const tiles *block, int m_inner)
{
    counts found;

    found.m = ceil_div(all->m, block->m);
    found.k = ceil_div(all->k, block->k);
    found.n = ceil_div(all->n, block->n);
    found.a = found.n;
    found.w = found.m;
    if (found.k == 1u && m_inner) {
        found.a = found.m == 1u ? 1u : found.n;
        found.w = 1u;
    } else if (found.k == 1u) {
        found.a = 1u;
        found.w = found.n == 1u ? 1u : found.m;
    }
    return found;
}

static uint64_t on_bus(uint64_t size, uint64_t stride)
{
    uint64_t aligned = smaller_of(stride & (~stride + 1u), MEMORY_BYTES);

    return (size + aligned - 1u) / aligned * aligned + 2u * MEMORY_BYTES - aligned;
}

/* Bytes that the memory could move until the product is done, about. */
static uint64_t cost_of(const @name@_job *job, const tiles *all, const tiles *block,
                        const @name@_blocks *how)
{
    const format *of = format_of(job);
    counts count = counts_of(all, block, how->m_inner);
    amounts row = row_of(job);
    uint64_t steps = times((uint64_t)count.m * count.k, count.n);
    uint64_t words = (uint64_t)count.n + ceil_div(job->n, POST_LANES);
    uint64_t a = times(times(job->m, count.k), on_bus((uint64_t)block->k * of->a_tile, row.a));
    uint32_t cuts = WEIGHT_COLUMNS ? count.k : count.n; /* of a row of W */
    uint64_t w_size = (uint64_t)(WEIGHT_COLUMNS ? block->k : block->n) * of->w_tile;
    uint64_t w = times(times(w_rows_of(job), cuts), on_bus(w_size, row.w));
    uint64_t first = plus(a / ((uint64_t)count.m * count.k), w / ((uint64_t)count.k * count.n));
    uint64_t busiest = 0u, everything = 0u, alone, load, compute, store, last, stored;
    size_t i;

    a = times(a, count.a);
    w = times(w, count.w);
    alone = plus(how->a_whole ? a : 0u, how->w_whole ? w : 0u);
    load = plus(plus(how->a_whole ? 0u : a, how->w_whole ? 0u : w), row.p * count.m);
    for (i = 0u; i < sizeof of->ports / sizeof of->ports[0]; i++) {
        uint64_t m = of->ports[i].m != 0u ? all->m : count.m;
        uint64_t k = of->ports[i].k != 0u ? all->k : count.k;
        uint64_t n = of->ports[i].n != 0u ? all->n : count.n;
        uint64_t beats = times(times(of->ports[i].beats * m, k), n);

        busiest = larger_of(busiest, beats);
        everything = plus(everything, beats);
    }
    compute = times(plus(busiest, everything / OTHER_PORTS), MEMORY_BYTES);
    store = larger_of(times(times(job->m, words), MEMORY_BYTES), row.c * job->m);
    last = compute / steps;
    stored = store / ((uint64_t)count.m * count.n);
    load = larger_of(load - smaller_of(load, first), larger_of(compute - last, store - stored));
    load = plus(load, plus(plus(first, last), plus(stored, alone)));
    return plus(load, times(steps, STEP_CYCLES * MEMORY_BYTES));
}

/* Look at one way to cut: first for the least traffic, then for the least cost near it. */
static void consider(const @name@_job *job, const tiles *block, const @name@_blocks *how,
                     choice *best)
{
    tiles all = tiles_of(job);
    counts count = counts_of(&all, block, how->m_inner);
    amounts row = row_of(job);
    uint64_t traffic, cost;

    traffic = plus(times(row.a * job->m, count.a), times(row.w * w_rows_of(job), count.w));
    traffic = plus(traffic, row.p * count.m);
    if (!best->near) {
        best->least = smaller_of(best->least, traffic);
        return;
    }
    if (traffic - best->least > best->least / TOLERANCE)
        return;
    cost = cost_of(job, &all, block, how);
    if (best->blocks.m != 0u &&
        (cost > best->cost || (cost == best->cost && traffic >= best->traffic)))
        return;
    best->cost = cost;
    best->traffic = traffic;
    best->blocks = *how;
    best->blocks.m = block->m * @NAME@_TILE_M;
    best->blocks.k = block->k * @NAME@_TILE_K;
    best->blocks.n = block->n * @NAME@_TILE_N;
}

/* Look at all sizes of blocks with loops and buffers as `how` says. */
static void consider_sizes(const @name@_job *job, const @name@_blocks *how, choice *best)
{
    tiles all = tiles_of(job), block;
    uint32_t most_n = most_columns(job), most_k, part, parts;

    for (block.m = 1u; block.m != 0u && block.m <= MOST_M; block.m = next_larger(all.m, block.m))
        for (block.n = 1u; block.n != 0u && block.n <= most_n &&
                           block.m * M_LANES * block.n <= OUT_DEPTH;
             block.n = next_larger(all.n, block.n)) {
            most_k = smaller(longest(job, how, block.m, block.n), all.k);
            if (most_k < (whole_k(block.m, block.n) ? all.k : 1u))
                break;
            parts = WHOLE_K != 0 && most_k == all.k ? 1u : (uint32_t)PARTS;
            for (part = 0u; part < parts; part++) {
                block.k = most_k >> part;
                block.k = ceil_div(all.k, ceil_div(all.k, block.k != 0u ? block.k : 1u));
                consider(job, &block, how, best);
            }
        }
}

static void choose(const @name@_job *job, @name@_blocks *blocks)
{
    choice best;
    @name@_blocks how;
    int whole;

    how.m = how.k = how.n = 0u;
    how.m_inner = how.a_whole = how.w_whole = 0;
    best.blocks = how;
    best.least = UINT64_MAX;
    best.traffic = best.cost = 0u;
    for (best.near = 0; best.near < 2; best.near++)
        for (how.m_inner = 0; how.m_inner < 2; how.m_inner++)
            for (whole = 0; whole < (job->least_traffic ? 4 : 1); whole++) {
                how.a_whole = whole & 1;
                how.w_whole = whole >> 1;
                consider_sizes(job, &how, &best);
            }
    *blocks = best.blocks;
}
