/* Conditions that cut statements in two: the grammar sees errors, the conditions stay clear. */
int f(int a)
{
#ifdef __SSE2__
	if (_mm_movemask_epi8(_mm_setzero_si128()) &&
#else
	if (a &&
#endif
		a > 1)
	{
#ifdef __x86_64__
		_mm_pause();
	} else {
		__rdtsc();
#endif
	}
	return a;
}

#ifdef __aarch64__
#include <arm_neon.h>
#endif
