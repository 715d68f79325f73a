/* Everything here has another path. */
#include <stdint.h>
#include <stddef.h>

#if defined(__x86_64__) && defined(__SSE4_2__)
#include <nmmintrin.h>
#define USE_CRC_INSTRUCTION 1
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#define USE_CRC_INSTRUCTION 1
#endif

#ifdef __x86_64__
#define HAVE_FAST_PATH
#endif

uint32_t crc(uint32_t crc, const unsigned char *p, size_t n)
{
#if defined(USE_CRC_INSTRUCTION) && defined(__x86_64__)
	while (n-- > 0)
		crc = _mm_crc32_u8(crc, *p++);
#elif defined(USE_CRC_INSTRUCTION)
	while (n-- > 0)
		crc = __crc32cb(crc, *p++);
#else
	while (n-- > 0)
		crc = table(crc, *p++);
#endif
	return crc;
}

void delay(void)
{
#if defined(__i386__) || defined(__x86_64__)
	__asm__ __volatile__(" rep; nop \n");
#elif defined(__aarch64__)
	__asm__ __volatile__(" isb \n");
#endif
}

#ifdef HAVE_FAST_PATH
#include <cpuid.h>
int features(void)
{
	unsigned a, b, c, d;

	__get_cpuid(1, &a, &b, &c, &d);
	return (int) c;
}
#endif

int bits(uint64_t word)
{
	return __builtin_popcountll(word);
}
