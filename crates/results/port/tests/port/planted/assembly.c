static inline int test_and_set(volatile unsigned char *lock)
{
	unsigned char res = 1;

	__asm__ __volatile__( /* PLANTED inline-assembly */
		"	lock		\n"
		"	xchgb	%0,%1	\n"
		: "+q" (res), "+m" (*lock) : : "memory", "cc");
	return res;
}

#if defined(__aarch64__)
#define delay() __asm__ __volatile__("isb")
#else
#define delay() __asm__ __volatile__("pause")
#endif

#define write_barrier() __asm__ __volatile__("" : : : "memory") /* PLANTED compiler-barrier */
#define compiler_barrier() __asm__ __volatile__("" : : : "memory")

#if defined(__x86_64__)
typedef long word;
#elif defined(__i386__)
typedef int word;
#else
#error "unknown processor" /* PLANTED unknown-processor */
#endif
