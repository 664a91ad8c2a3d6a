/* Results are equal to the golden model's in every bit if every operation is rounded as it stands
 * here: in double precision, products and sums each on their own. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=off")
#else
#pragma STDC FP_CONTRACT OFF
#endif
#if defined(__FAST_MATH__) || (defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0)
#error "numbers must be rounded to their own precision: compile without fast math, for SSE2 on x86"
#endif

/* Added and subtracted again it rounds to an integer, halves to even. */
#define ROUND @ROUND@
