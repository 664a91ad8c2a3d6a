// SPDX-License-Identifier: Apache-2.0
// Compares the tensor cores of a GPU with a rule in integer arithmetic, bit by bit.
//
// A tile is a warpgroup's: A of 64 rows and B of 8 columns, 32 bytes of K each, and 64 x 8 results.
// Tile numbers choose the distribution of the operands (number % 8) and of C (number / 8 % 8).
// The rule is written from scratch here: nothing is shared with hwgen's golden model.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>

#define CHECK(call)                                                                                \
  do {                                                                                             \
    cudaError_t status = (call);                                                                   \
    if (status != cudaSuccess) {                                                                   \
      fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status));                              \
      exit(3);                                                                                     \
    }                                                                                              \
  } while (0)

enum Operation {
  MMA_F16, MMA_BF16, MMA_F16_K8, MMA_BF16_K8, WGMMA_F16, WGMMA_BF16,
  WGMMA_E4M3_E4M3, WGMMA_E4M3_E5M2, WGMMA_E5M2_E4M3, WGMMA_E5M2_E5M2,
  MMA_E4M3_E4M3, MMA_E4M3_E5M2, MMA_E5M2_E4M3, MMA_E5M2_E5M2,
  MMA_S8_S8, MMA_S8_U8, MMA_U8_S8, MMA_U8_U8, WGMMA_S8_S8, WGMMA_S8_U8, WGMMA_U8_S8, WGMMA_U8_U8,
  OPERATIONS
};

const char *const NAMES[OPERATIONS] = {
  "mma_fp16", "mma_bf16", "mma_fp16_k8", "mma_bf16_k8", "wgmma_fp16", "wgmma_bf16",
  "wgmma_e4m3_e4m3", "wgmma_e4m3_e5m2", "wgmma_e5m2_e4m3", "wgmma_e5m2_e5m2",
  "mma_e4m3_e4m3", "mma_e4m3_e5m2", "mma_e5m2_e4m3", "mma_e5m2_e5m2",
  "mma_int8_int8", "mma_int8_uint8", "mma_uint8_int8", "mma_uint8_uint8",
  "wgmma_int8_int8", "wgmma_int8_uint8", "wgmma_uint8_int8", "wgmma_uint8_uint8"};

// Exponent bits, mantissa bits and bytes of an element; integers: 0, and whether it is signed.
struct Format { int exponent, mantissa, bytes; };

__host__ __device__ constexpr Format format_of(int op, int side) {
  constexpr Format E4M3{4, 3, 1}, E5M2{5, 2, 1}, S8{0, 1, 1}, U8{0, 0, 1};
  switch (op) {
    case MMA_F16: case MMA_F16_K8: case WGMMA_F16: return {5, 10, 2};
    case MMA_BF16: case MMA_BF16_K8: case WGMMA_BF16: return {8, 7, 2};
    case WGMMA_E4M3_E4M3: case MMA_E4M3_E4M3: return E4M3;
    case WGMMA_E4M3_E5M2: case MMA_E4M3_E5M2: return side ? E5M2 : E4M3;
    case WGMMA_E5M2_E4M3: case MMA_E5M2_E4M3: return side ? E4M3 : E5M2;
    case WGMMA_E5M2_E5M2: case MMA_E5M2_E5M2: return E5M2;
    case MMA_S8_S8: case WGMMA_S8_S8: return S8;
    case MMA_S8_U8: case WGMMA_S8_U8: return side ? U8 : S8;
    case MMA_U8_S8: case WGMMA_U8_S8: return side ? S8 : U8;
    default: return U8;
  }
}

__host__ __device__ constexpr bool is_wgmma(int op) {
  return op == WGMMA_F16 || op == WGMMA_BF16 || (op >= WGMMA_E4M3_E4M3 && op <= WGMMA_E5M2_E5M2) ||
         op >= WGMMA_S8_S8;
}

__host__ __device__ constexpr int bytes_of(int op) {  // of K, in a step
  return op == MMA_F16_K8 || op == MMA_BF16_K8 ? 16 : 32;
}

// The rule of a step.
struct Rule {
  int fraction_bits;     // behind the point of the largest exponent
  int result_bits;       // fractional bits of the result's own exponent
  int lowest_exponent;   // of the largest one
  int halves;            // 0: all at once; else two steps: 1 low and high half, 2 k & 2, 3 k & 1
  int reversed;          // the second of both steps first
  int as_fp16;           // 1: elements are converted to fp16 first; 2: subnormals are normalised
  int negative_zero;     // a negative sum that is cut off to zero is -0
  int nearest;           // the result is rounded to nearest instead of cut off
  int zeros_count;       // products that are zero have their exponents
  unsigned nan;          // pattern
  int saturates;         // integers
  int wraps_infinity;    // what overflows is the largest finite number
  int add_last;          // C is added by the single-precision adder, behind the steps
  int no_nan;            // 1: an infinity times zero is none; 2: infinities of both signs are +
};

constexpr int STATES = 6;  // NaN, infinite, +0, -0, subnormal, differs

struct Job {
  unsigned long long first, tiles, seed;
  int steps;
  Rule rule;
  unsigned samples;
};

struct Sample {  // one step of a tile
  uint8_t a[64][32], b[8][32];
  uint32_t c[64][8], d[64][8];
};

struct Difference {
  unsigned tile, c, d, expected;
  uint8_t a[32], b[32];
};

constexpr unsigned MOST_DIFFERENCES = 64;

__device__ unsigned long long mix(unsigned long long x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

__device__ bool is_finite(const Format f, unsigned bits) {
  if (f.exponent == 4) return (bits & 0x7F) != 0x7F;  // e4m3 has one NaN and no infinities
  return ((bits >> f.mantissa) & ((1u << f.exponent) - 1)) != (1u << f.exponent) - 1;
}

// An element of a distribution; `key` is of the tile, `k` the place along K.
__device__ unsigned element(const Format f, int mode, unsigned long long key, int line, int k,
                            int side) {
  const bool pairs = mode == 4;
  const unsigned long long h = mix(key ^ ((unsigned long long)(side * 64 + line) << 40) ^
                                   ((unsigned long long)(pairs ? k & ~1 : k) << 52));
  const int width = f.bytes * 8;
  const unsigned bits = h & ((1u << width) - 1), choice = h >> 32;
  if (!f.exponent) {
    if (mode == 1) return bits & 1 ? 0x80 : 0x7F;
    return mode == 2 ? bits & 0x83 : bits;
  }
  const int bias = (1 << (f.exponent - 1)) - 1, most = (1 << f.exponent) - 1;
  const unsigned sign = bits & (1u << (width - 1)), fraction = bits & ((1u << f.mantissa) - 1);
  auto made = [&](int exponent) { return sign | (unsigned)exponent << f.mantissa | fraction; };
  auto finite = [&](unsigned x) { return is_finite(f, x) ? x : x ^ (1u << f.mantissa); };
  switch (mode) {
    case 0: return bits;
    case 1: return finite(bits);
    case 2: return choice % 16 ? made(bias - 1 + choice / 16 % 4) : sign;
    case 3: return choice & 1 ? sign | fraction : finite(bits);
    case 4: {  // products that cancel, or nearly
      const unsigned x = finite(bits);
      const unsigned long long g = mix(h ^ k);
      return (side && k & 1 ? x ^ (1u << (width - 1)) : x) ^ (g % 8 == 0 && k & 1 ? 1u : 0u);
    }
    case 5: return f.exponent == 8 ? made(20 + choice % 56) : made(choice % 3);
    case 6: return finite(made(most - choice % 3));
    default: {
      const unsigned infinity = f.exponent == 4 ? 0x7E : (unsigned)most << f.mantissa;
      switch (choice % 256) {
        case 0: return sign | infinity;
        case 1: return sign | infinity | 1;
        case 2: case 3: return sign;
        default: return made(bias - 4 + choice / 256 % 8);
      }
    }
  }
}

__device__ unsigned start(int mode, unsigned long long key, int row, int col, bool integer) {
  const unsigned long long h = mix(key ^ 0xC0FFEEull ^ ((unsigned long long)(row * 8 + col) << 44));
  const unsigned bits = h, choice = h >> 32;
  if (integer)
    return mode & 1 ? bits : mode & 2 ? 0x7FFFFFFFu - (bits & 0xFFFF) : 0x80000000u + (bits & 0xFFFF);
  const unsigned sign = bits & 0x80000000u, fraction = bits & 0x7FFFFF;
  switch (mode) {
    case 0: case 7: return 0;
    case 1: return choice & 1 ? 0x80000000u : 0;
    case 2: return bits;
    case 3: return (bits >> 23 & 0xFF) == 0xFF ? bits ^ 0x800000 : bits;
    case 4: return sign | (127 - 24 + choice % 48) << 23 | fraction;
    case 5: return choice & 1 ? sign | fraction : sign | (choice / 2 % 40) << 23 | fraction;
    default: return sign | (254 - choice % 4) << 23 | fraction;
  }
}

struct Number { int significand, exponent; bool nan, infinite; };

__device__ Number decode(const Format f, unsigned bits, int as_fp16) {
  const int most = (1 << f.exponent) - 1, bias = (1 << (f.exponent - 1)) - 1;
  const int biased = bits >> f.mantissa & most;
  const int fraction = bits & ((1 << f.mantissa) - 1);
  Number n;
  n.significand = fraction | (biased > 0) << f.mantissa;
  n.exponent = (biased ? biased : 1) - bias;
  if (as_fp16 && n.significand)
    for (; n.significand < 1 << f.mantissa && (as_fp16 == 2 || n.exponent > -14); n.exponent--)
      n.significand *= 2;
  const bool special = !is_finite(f, bits);
  n.nan = special && (f.exponent == 4 || fraction);
  n.infinite = special && !n.nan;
  if (bits >> (f.bytes * 8 - 1) & 1) n.significand = -n.significand;
  return n;
}

__device__ long long cut(long long x, int places) {  // x * 2**places, towards zero
  const long long magnitude = x < 0 ? -x : x;
  const long long y = places >= 0 ? magnitude << places : places > -63 ? magnitude >> -places : 0;
  return x < 0 ? -y : y;
}

// One step of a result: `a` and `b` are 32 bytes, of which those with `taken(k)` count.
template <int OP, typename Taken>
__device__ unsigned float_step(const uint8_t *a, const uint8_t *b, unsigned c, const Rule &rule,
                               Taken taken) {
  constexpr Format fa = format_of(OP, 0), fb = format_of(OP, 1);
  constexpr int count = bytes_of(OP) / fa.bytes;
  auto load = [](const uint8_t *from, int k, int bytes) -> unsigned {
    return bytes == 2 ? from[2 * k] | from[2 * k + 1] << 8 : from[k];
  };
  const int low = rule.lowest_exponent;
  const int biased = c >> 23 & 0xFF;
  const bool c_special = biased == 255;
  const long long c_magnitude = (c & 0x7FFFFF) | (biased > 0) << 23;
  const int c_exponent = (biased ? biased : 1) - 127;
  int largest = !c_magnitude && !rule.zeros_count ? low : max(c_exponent, low);
  bool nan = c_special && (c & 0x7FFFFF), plus = false, minus = false;
  if (c_special && !(c & 0x7FFFFF)) (c >> 31 ? minus : plus) = true;
  for (int k = 0; k < count; k++) {
    if (!taken(k)) continue;
    const Number x = decode(fa, load(a, k, fa.bytes), rule.as_fp16);
    const Number y = decode(fb, load(b, k, fb.bytes), rule.as_fp16);
    const bool zero = !x.significand || !y.significand;
    nan |= x.nan || y.nan;
    if (x.infinite || y.infinite) {
      if (zero) nan |= rule.no_nan != 1;
      else ((x.significand < 0) != (y.significand < 0) ? minus : plus) = true;
    }
    if (!zero || rule.zeros_count) largest = max(largest, x.exponent + y.exponent);
  }
  if (nan || (plus && minus && rule.no_nan != 2)) return rule.nan;
  if (plus || minus) return plus ? 0x7F800000u : 0xFF800000u;
  long long sum = cut(c >> 31 ? -c_magnitude : c_magnitude,
                      c_exponent - largest + rule.fraction_bits - 23);
  for (int k = 0; k < count; k++) {
    if (!taken(k)) continue;
    const Number x = decode(fa, load(a, k, fa.bytes), rule.as_fp16);
    const Number y = decode(fb, load(b, k, fb.bytes), rule.as_fp16);
    const int places = x.exponent + y.exponent - largest + rule.fraction_bits - fa.mantissa -
                       fb.mantissa;
    sum += cut((long long)x.significand * y.significand, places);
  }
  unsigned long long magnitude = sum < 0 ? -sum : sum;
  const unsigned sign = sum < 0 ? 0x80000000u : 0;
  if (!magnitude) return 0;
  const int unit = largest - rule.fraction_bits;  // of the sum's last bit
  int exponent = max(63 - __clzll(magnitude) + unit, -126);
  int drop = exponent - rule.result_bits - unit;
  if (drop > 0) {
    unsigned long long rest = drop > 63 ? magnitude : magnitude & ((1ull << drop) - 1);
    magnitude = drop > 63 ? 0 : magnitude >> drop;
    if (rule.nearest && drop <= 63) {
      const unsigned long long half = 1ull << (drop - 1);
      if (rest > half || (rest == half && magnitude & 1)) magnitude++;
      if (magnitude >> (rule.result_bits + 1)) { magnitude >>= 1; exponent++; }
    }
    drop = 0;
  }
  if (!magnitude) return rule.negative_zero ? sign : 0;
  // Now in units of 2**(exponent - result_bits), or larger ones if nothing was dropped.
  magnitude <<= -drop;
  magnitude <<= 23 - rule.result_bits;
  if (exponent > 127) return sign | (rule.wraps_infinity ? 0x7F7FFFFFu : 0x7F800000u);
  if (magnitude < 1u << 23) return sign | (unsigned)magnitude;
  return sign | (unsigned)(exponent + 127) << 23 | ((unsigned)magnitude & 0x7FFFFF);
}

template <int OP>
__device__ unsigned step(const uint8_t *a, const uint8_t *b, unsigned c, const Rule &rule) {
  constexpr Format fa = format_of(OP, 0), fb = format_of(OP, 1);
  if constexpr (fa.exponent == 0) {
    int products = 0;  // nvcc 13.0 adds to a sum of 64 bits with 32-bit instructions that wrap
    for (int k = 0; k < 32; k++)
      products += (fa.mantissa ? (int)(int8_t)a[k] : (int)a[k]) * (fb.mantissa ? (int)(int8_t)b[k] : (int)b[k]);
    long long sum = (long long)(int)c + products;
    if (rule.saturates) sum = min(max(sum, -2147483648ll), 2147483647ll);
    return (unsigned)sum;
  } else {
    if (!rule.halves) return float_step<OP>(a, b, c, rule, [](int) { return true; });
    constexpr int count = 32 / fa.bytes;
    const unsigned addend = c;
    if (rule.add_last) c = 0;
    for (int half = 0; half < 2; half++) {
      const int wanted = half ^ rule.reversed;
      const int by = rule.halves;
      c = float_step<OP>(a, b, c, rule, [=](int k) {
        return (by == 1 ? k / (count / 2) : by == 2 ? k >> 1 & 1 : k & 1) == wanted;
      });
    }
    if (rule.add_last) c = __float_as_uint(__fadd_rn(__uint_as_float(c), __uint_as_float(addend)));
    return c;
  }
}

#define WGMMA_F(types, tail)                                                                       \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0;\n"                                            \
               "wgmma.mma_async.sync.aligned.m64n8" types                                          \
               " {%0,%1,%2,%3}, {%4,%5,%6,%7}, %8, p" tail "; }\n"                                 \
               : "+f"(f[0]), "+f"(f[1]), "+f"(f[2]), "+f"(f[3])                                    \
               : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(descriptor))
#define WGMMA_I(types)                                                                             \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0;\n"                                            \
               "wgmma.mma_async.sync.aligned.m64n8k32.s32." types                                  \
               " {%0,%1,%2,%3}, {%4,%5,%6,%7}, %8, p; }\n"                                         \
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                    \
               : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(descriptor))
#define MMA_F(types)                                                                               \
  asm volatile("mma.sync.aligned.m16n8" types                                                      \
               " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"                          \
               : "+f"(f[0]), "+f"(f[1]), "+f"(f[2]), "+f"(f[3])                                    \
               : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]))
#define MMA_K8(types)                                                                              \
  asm volatile("mma.sync.aligned.m16n8" types                                                      \
               " {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};\n"                                   \
               : "+f"(f[0]), "+f"(f[1]), "+f"(f[2]), "+f"(f[3])                                    \
               : "r"(x[0]), "r"(x[1]), "r"(y[0]))
#define MMA_I(types)                                                                               \
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32." types                                      \
               " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"                          \
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                    \
               : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]))

// The step by the hardware: `x` of A's rows and `y` of B's columns, `d` the accumulators.
template <int OP>
__device__ void hardware(unsigned d[4], const unsigned x[4], const unsigned y[2],
                         unsigned long long descriptor) {
  float f[4];
  for (int i = 0; i < 4; i++) f[i] = __uint_as_float(d[i]);
  if constexpr (is_wgmma(OP)) {
    asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
    if constexpr (OP == WGMMA_F16) WGMMA_F("k16.f32.f16.f16", ", 1, 1, 0");
    if constexpr (OP == WGMMA_BF16) WGMMA_F("k16.f32.bf16.bf16", ", 1, 1, 0");
    if constexpr (OP == WGMMA_E4M3_E4M3) WGMMA_F("k32.f32.e4m3.e4m3", ", 1, 1");
    if constexpr (OP == WGMMA_E4M3_E5M2) WGMMA_F("k32.f32.e4m3.e5m2", ", 1, 1");
    if constexpr (OP == WGMMA_E5M2_E4M3) WGMMA_F("k32.f32.e5m2.e4m3", ", 1, 1");
    if constexpr (OP == WGMMA_E5M2_E5M2) WGMMA_F("k32.f32.e5m2.e5m2", ", 1, 1");
    if constexpr (OP == WGMMA_S8_S8) WGMMA_I("s8.s8");
    if constexpr (OP == WGMMA_S8_U8) WGMMA_I("s8.u8");
    if constexpr (OP == WGMMA_U8_S8) WGMMA_I("u8.s8");
    if constexpr (OP == WGMMA_U8_U8) WGMMA_I("u8.u8");
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"
                 : "+f"(f[0]), "+f"(f[1]), "+f"(f[2]), "+f"(f[3]), "+r"(d[0]), "+r"(d[1]),
                   "+r"(d[2]), "+r"(d[3])::"memory");
  }
  if constexpr (OP == MMA_F16) MMA_F("k16.row.col.f32.f16.f16.f32");
  if constexpr (OP == MMA_BF16) MMA_F("k16.row.col.f32.bf16.bf16.f32");
  if constexpr (OP == MMA_F16_K8) MMA_K8("k8.row.col.f32.f16.f16.f32");
  if constexpr (OP == MMA_BF16_K8) MMA_K8("k8.row.col.f32.bf16.bf16.f32");
  if constexpr (OP == MMA_E4M3_E4M3) MMA_F("k32.row.col.f32.e4m3.e4m3.f32");
  if constexpr (OP == MMA_E4M3_E5M2) MMA_F("k32.row.col.f32.e4m3.e5m2.f32");
  if constexpr (OP == MMA_E5M2_E4M3) MMA_F("k32.row.col.f32.e5m2.e4m3.f32");
  if constexpr (OP == MMA_E5M2_E5M2) MMA_F("k32.row.col.f32.e5m2.e5m2.f32");
  if constexpr (OP == MMA_S8_S8) MMA_I("s8.s8.s32");
  if constexpr (OP == MMA_S8_U8) MMA_I("s8.u8.s32");
  if constexpr (OP == MMA_U8_S8) MMA_I("u8.s8.s32");
  if constexpr (OP == MMA_U8_U8) MMA_I("u8.u8.s32");
  if constexpr (format_of(OP, 0).exponent != 0)
    for (int i = 0; i < 4; i++) d[i] = __float_as_uint(f[i]);
}

template <int OP>
__global__ void __launch_bounds__(128) compare(Job job, unsigned long long *states, Sample *samples,
                                               Difference *differences, unsigned *found) {
  constexpr Format formats[2] = {format_of(OP, 0), format_of(OP, 1)};
  constexpr int row_bytes = bytes_of(OP);
  __shared__ __align__(128) unsigned a[64][8];
  __shared__ __align__(128) unsigned b_cores[2][8][4];  // 16 bytes of each column, and the other
  __shared__ __align__(128) unsigned b[8][8];
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const int group = lane / 4, quad = lane % 4;
  for (unsigned long long tile = job.first + blockIdx.x; tile < job.first + job.tiles;
       tile += gridDim.x) {
    const int mode = tile & 7, c_mode = tile >> 3 & 7;
    const unsigned long long key = mix(job.seed ^ mix(tile));
    const int rows[2] = {warp * 16 + group, warp * 16 + group + 8};
    unsigned d[4], expected[4];
    for (int i = 0; i < 4; i++)
      d[i] = expected[i] =
          start(c_mode, key, rows[i / 2], quad * 2 + i % 2, formats[0].exponent == 0);
    for (int number = 0; number < job.steps; number++) {
      const unsigned long long step_key = mix(key + number);
      __syncthreads();
      for (int at = thread; at < 72 * 8; at += 128) {
        const int side = at >= 512, line = (at / 8) % 64, word = at % 8;
        const Format f = formats[side];
        unsigned bits = 0;
        for (int part = 0; part < 4 / f.bytes && word * 4 < row_bytes; part++)
          bits |= element(f, mode, step_key, line, word * (4 / f.bytes) + part, side)
                  << (8 * f.bytes * part);
        if (side) b[line][word] = b_cores[word / 4][line][word % 4] = bits;
        else a[line][word] = bits;
      }
      asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
      __syncthreads();
      const unsigned x[4] = {a[rows[0]][quad], a[rows[1]][quad], a[rows[0]][quad + 4],
                             a[rows[1]][quad + 4]};
      const unsigned y[2] = {b[group][quad], b[group][quad + 4]};
      const unsigned address = (unsigned)__cvta_generic_to_shared(b_cores);
      const unsigned long long descriptor = (unsigned long long)((address & 0x3FFFF) >> 4) |
                                            (128ull >> 4) << 16 | (256ull >> 4) << 32;
      unsigned before[4];
      for (int i = 0; i < 4; i++) before[i] = d[i];
      hardware<OP>(d, x, y, descriptor);
      const unsigned long long sample = (tile - job.first) * job.steps + number;
      const bool kept = tile - job.first < job.samples;
      for (int i = 0; i < 4; i++) {
        const int row = rows[i / 2], col = quad * 2 + i % 2;
        expected[i] = step<OP>((const uint8_t *)a[row], (const uint8_t *)b[col], expected[i], job.rule);
        if (kept) samples[sample].c[row][col] = before[i], samples[sample].d[row][col] = d[i];
        const unsigned magnitude = d[i] & 0x7FFFFFFF;
        const bool differs = d[i] != expected[i];
        const bool is[STATES] = {magnitude > 0x7F800000, magnitude == 0x7F800000, d[i] == 0,
                                 d[i] == 0x80000000, magnitude && magnitude < 0x800000, differs};
        for (int s = 0; s < STATES; s++) {
          const unsigned ballot = __ballot_sync(0xFFFFFFFF, is[s]);
          if (!lane && ballot) atomicAdd(states + (mode * 8 + c_mode) * STATES + s, __popc(ballot));
        }
        if (differs) {
          const unsigned at = *found < MOST_DIFFERENCES ? atomicAdd(found, 1) : MOST_DIFFERENCES;
          if (at < MOST_DIFFERENCES) {
            Difference &difference = differences[at];
            difference.tile = tile, difference.c = before[i], difference.d = d[i];
            difference.expected = expected[i];
            memcpy(difference.a, a[row], 32), memcpy(difference.b, b[col], 32);
          }
          expected[i] = d[i];  // each step by itself
        }
      }
      if (kept) {
        for (int at = thread; at < 64 * 32; at += 128)
          samples[sample].a[at / 32][at % 32] = ((const uint8_t *)a)[at];
        for (int at = thread; at < 8 * 32; at += 128)
          samples[sample].b[at / 32][at % 32] = ((const uint8_t *)b)[at];
      }
    }
  }
}

// The product of two matrices by a plain chain of steps: `a` of m rows and `b` of n columns, `k`
// bytes each, m a multiple of 64, n of 8 and k of a step; `d` of m x n results.
template <int OP>
__global__ void __launch_bounds__(128) multiply(const uint8_t *rows, const uint8_t *columns,
                                                unsigned *results, int m, int n, int k) {
  constexpr int bytes = bytes_of(OP);
  __shared__ __align__(128) unsigned a[64][8];
  __shared__ __align__(128) unsigned b_cores[2][8][4];
  __shared__ __align__(128) unsigned b[8][8];
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const int group = lane / 4, quad = lane % 4;
  const size_t row = (size_t)blockIdx.y * 64, col = (size_t)blockIdx.x * 8;
  unsigned d[4] = {};
  for (int start = 0; start < k; start += bytes) {
    __syncthreads();
    for (int at = thread; at < 72 * 8; at += 128) {
      const int side = at >= 512, line = (at / 8) % 64, word = at % 8;
      const uint8_t *from = side ? columns + (col + line) * k : rows + (row + line) * k;
      unsigned bits = 0;
      if (word * 4 < bytes) memcpy(&bits, from + start + word * 4, 4);
      if (side) b[line][word] = b_cores[word / 4][line][word % 4] = bits;
      else a[line][word] = bits;
    }
    asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
    __syncthreads();
    const int mine[2] = {warp * 16 + group, warp * 16 + group + 8};
    const unsigned x[4] = {a[mine[0]][quad], a[mine[1]][quad], a[mine[0]][quad + 4],
                           a[mine[1]][quad + 4]};
    const unsigned y[2] = {b[group][quad], b[group][quad + 4]};
    const unsigned address = (unsigned)__cvta_generic_to_shared(b_cores);
    const unsigned long long descriptor = (unsigned long long)((address & 0x3FFFF) >> 4) |
                                          (128ull >> 4) << 16 | (256ull >> 4) << 32;
    hardware<OP>(d, x, y, descriptor);
  }
  for (int i = 0; i < 4; i++)
    results[(row + warp * 16 + group + i / 2 * 8) * n + col + quad * 2 + i % 2] = d[i];
}

template <int OP>
void launch_product(int op, dim3 grid, const uint8_t *a, const uint8_t *b, unsigned *d, int m,
                    int n, int k) {
  if constexpr (OP < OPERATIONS) {
    if (op == OP) multiply<OP><<<grid, 128>>>(a, b, d, m, n, k);
    else launch_product<OP + 1>(op, grid, a, b, d, m, n, k);
  }
}

// Multiply the matrices of a file, A and then B, and write the results to another.
int product(int op, const char *from, const char *to, int m, int n, int k) {
  if (m % 64 || n % 8 || k % bytes_of(op) || m < 64 || n < 8 || k < 1) {
    fprintf(stderr, "m must be a multiple of 64, n of 8, and k of %d bytes\n", bytes_of(op));
    return 2;
  }
  const size_t size = (size_t)(m + n) * k;
  uint8_t *host = (uint8_t *)malloc(size), *operands;
  unsigned *results, *out = (unsigned *)malloc((size_t)m * n * 4);
  FILE *file = fopen(from, "rb");
  if (!file || fread(host, 1, size, file) != size) {
    fprintf(stderr, "%s: must hold %zu bytes\n", from, size);
    return 2;
  }
  fclose(file);
  CHECK(cudaMalloc(&operands, size));
  CHECK(cudaMalloc(&results, (size_t)m * n * 4));
  CHECK(cudaMemcpy(operands, host, size, cudaMemcpyHostToDevice));
  launch_product<0>(op, dim3(n / 8, m / 64), operands, operands + (size_t)m * k, results, m, n, k);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(out, results, (size_t)m * n * 4, cudaMemcpyDeviceToHost));
  file = fopen(to, "wb");
  if (!file || fwrite(out, 4, (size_t)m * n, file) != (size_t)m * n) { perror(to); return 2; }
  fclose(file);
  return 0;
}

template <int OP>
void launch(int op, const Job &job, unsigned long long *states, Sample *samples,
            Difference *differences, unsigned *found) {
  if constexpr (OP < OPERATIONS) {
    if (op == OP) compare<OP><<<132 * 12, 128>>>(job, states, samples, differences, found);
    else launch<OP + 1>(op, job, states, samples, differences, found);
  }
}

// NAME=VALUE arguments: a comparison prints one line of JSON; with operands=FILE save=FILE m= n= k=
// (bytes) matrices are multiplied.
int main(int count, char **words) {
  auto value = [&](const char *name, long long otherwise) {
    const size_t length = strlen(name);
    for (int i = 1; i < count; i++)
      if (!strncmp(words[i], name, length) && words[i][length] == '=')
        return atoll(words[i] + length + 1);
    return otherwise;
  };
  const char *path = nullptr, *from = nullptr, *wanted = "";
  for (int i = 1; i < count; i++) {
    if (!strncmp(words[i], "operation=", 10)) wanted = words[i] + 10;
    if (!strncmp(words[i], "save=", 5)) path = words[i] + 5;
    if (!strncmp(words[i], "operands=", 9)) from = words[i] + 9;
  }
  int op = 0;
  while (op < OPERATIONS && strcmp(NAMES[op], wanted)) op++;
  if (op == OPERATIONS) {
    fprintf(stderr, "operation must be one of");
    for (const char *name : NAMES) fprintf(stderr, " %s", name);
    fprintf(stderr, "\n");
    return 2;
  }
  if (from && path)
    return product(op, from, path, value("m", 0), value("n", 0), value("k", 0));
  Job job;
  job.first = value("first", 0), job.tiles = value("tiles", 1024), job.seed = value("seed", 1);
  job.steps = value("steps", 1), job.samples = path ? value("samples", 64) : 0;
  if (job.samples > job.tiles) job.samples = job.tiles;
  const bool short_rule = format_of(op, 0).bytes == 1 && is_wgmma(op);
  job.rule = Rule{(int)value("fraction_bits", short_rule ? 13 : 25),
                  (int)value("result_bits", short_rule ? 13 : 23),
                  (int)value("lowest_exponent", -133), (int)value("halves", 0),
                  (int)value("reversed", 0), (int)value("as_fp16", 0),
                  (int)value("negative_zero", 0), (int)value("nearest", 0),
                  (int)value("zeros_count", 0), (unsigned)value("nan", 0x7FFFFFFF),
                  (int)value("saturates", 0), (int)value("wraps_infinity", 0),
                  (int)value("add_last", 0), (int)value("no_nan", 0)};
  unsigned long long *states;
  Sample *samples;
  Difference *differences;
  unsigned *found;
  const size_t sample_bytes = (job.samples * job.steps + 1) * sizeof(Sample);
  CHECK(cudaMalloc(&states, 64 * STATES * 8));
  CHECK(cudaMalloc(&samples, sample_bytes));
  CHECK(cudaMalloc(&differences, MOST_DIFFERENCES * sizeof(Difference)));
  CHECK(cudaMalloc(&found, 4));
  CHECK(cudaMemset(states, 0, 64 * STATES * 8));
  CHECK(cudaMemset(found, 0, 4));
  CHECK(cudaMemset(samples, 0, sample_bytes));
  launch<0>(op, job, states, samples, differences, found);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  static unsigned long long counts[64][STATES];
  static Difference first[MOST_DIFFERENCES];
  unsigned differing;
  CHECK(cudaMemcpy(counts, states, sizeof counts, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(first, differences, sizeof first, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(&differing, found, 4, cudaMemcpyDeviceToHost));
  unsigned long long totals[STATES] = {};
  printf("{\"operation\": \"%s\", \"results\": %llu, \"by_distribution\": [", wanted,
         job.tiles * job.steps * 512);
  for (int i = 0; i < 64; i++) {
    printf("%s[", i ? ", " : "");
    for (int s = 0; s < STATES; s++) totals[s] += counts[i][s], printf("%s%llu", s ? ", " : "", counts[i][s]);
    printf("]");
  }
  printf("], \"nan\": %llu, \"infinite\": %llu, \"zero\": %llu, \"negative_zero\": %llu, "
         "\"subnormal\": %llu, \"differences\": %llu, \"first\": [",
         totals[0], totals[1], totals[2], totals[3], totals[4], totals[5]);
  for (unsigned i = 0; i < differing && i < value("show", 2) && i < MOST_DIFFERENCES; i++) {
    printf("%s{\"tile\": %u, \"c\": \"%08x\", \"d\": \"%08x\", \"expected\": \"%08x\", \"a\": \"", i ? ", " : "",
           first[i].tile, first[i].c, first[i].d, first[i].expected);
    for (int k = 0; k < 32; k++) printf("%02x", first[i].a[k]);
    printf("\", \"b\": \"");
    for (int k = 0; k < 32; k++) printf("%02x", first[i].b[k]);
    printf("\"}");
  }
  printf("]}\n");
  if (path) {
    void *bytes = malloc(sample_bytes);
    CHECK(cudaMemcpy(bytes, samples, sample_bytes, cudaMemcpyDeviceToHost));
    FILE *file = fopen(path, "wb");
    if (!file) { perror(path); return 2; }
    fwrite(bytes, sizeof(Sample), job.samples * job.steps, file);
    fclose(file);
  }
  return 0;
}
