#include <immintrin.h>

int sum(const int *p)
{
	return _mm256_extract_epi32(_mm256_loadu_si256((const __m256i *) p), 0);
}
