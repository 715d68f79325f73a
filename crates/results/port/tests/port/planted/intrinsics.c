#include <nmmintrin.h> /* PLANTED x86-intrinsic */
#include <cpuid.h> /* PLANTED x86-cpuid */

static __m128i sum; /* PLANTED x86-intrinsic */

unsigned crc(unsigned crc, const unsigned char *p, int n)
{
	while (n-- > 0)
		crc = _mm_crc32_u8(crc, *p++); /* PLANTED x86-crc32 */
	return crc;
}

int bits(unsigned long long word)
{
	return (int) _mm_popcnt_u64(word); /* PLANTED x86-popcount */
}

void wait_a_little(void)
{
	_mm_pause(); /* PLANTED x86-pause */
}

void order(void)
{
	_mm_mfence(); /* PLANTED x86-fence */
}

unsigned long long now(void)
{
	return __rdtsc(); /* PLANTED x86-clock */
}

int has_avx2(void)
{
	return __builtin_cpu_supports("avx2"); /* PLANTED x86-cpuid */
}

__attribute__((target("avx2"))) /* PLANTED x86-target */
void add(int *a, const int *b)
{
	__m256i x = _mm256_loadu_si256((const __m256i *) a); /* PLANTED x86-intrinsic */

	_mm256_storeu_si256((__m256i *) a, _mm256_add_epi32(x, _mm256_loadu_si256((const __m256i *) b)));
}

#ifdef USE_FAST_SUM
int fast(void)
{
	return _mm_cvtsi128_si32(sum); /* PLANTED x86-intrinsic */
}
#endif

#define SPIN() _mm_pause() /* PLANTED x86-pause */
