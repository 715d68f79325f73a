/* Accesses to shared memory of many kinds, once for each byte on standard input. */
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

static void nothing(int signal) { (void) signal; }
static void callee(void) { __asm__ volatile(""); }

static void work(volatile uint8_t *memory)
{
	volatile uint64_t *words = (volatile uint64_t *) memory;
	uint64_t sum = 0;

	for (int i = 0; i < 300; i++)
		words[i % 40] = sum += words[(i * 7) % 64];
	for (int i = 0; i < 50; i++)
	{
		memory[512 + i * 3] += 1;
		__atomic_fetch_add((uint32_t *) (memory + 1024), 1, __ATOMIC_SEQ_CST);
		__atomic_exchange_n((uint8_t *) (memory + 1090), 1, __ATOMIC_SEQ_CST);
		uint32_t seen = *(volatile uint32_t *) (memory + 1152);
		__atomic_compare_exchange_n((uint32_t *) (memory + 1152), &seen, seen + 1, 0,
									__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
		/* A swap that fails. */
		seen = 12345;
		__atomic_compare_exchange_n((uint32_t *) (memory + 1216), &seen, 1, 0,
									__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	}
	/* Strings: copied, set, compared until they differ. */
	void *to = (void *) (memory + 4096), *from = (void *) (memory + 2048);
	uint64_t count = 77;
	__asm__ volatile("rep movsb" : "+D" (to), "+S" (from), "+c" (count) : : "memory");
	to = (void *) (memory + 8192);
	count = 33;
	__asm__ volatile("rep stosq" : "+D" (to), "+c" (count) : "a" (7ull) : "memory");
	to = (void *) (memory + 8192);
	from = (void *) (memory + 8200);
	count = 1000;
	__asm__ volatile("repe cmpsq" : "+D" (to), "+S" (from), "+c" (count) : : "memory", "cc");
	count = 0;
	__asm__ volatile("rep movsb" : "+D" (to), "+S" (from), "+c" (count) : : "memory");
	/* Vectors, what crosses a line, addresses with index and segment, implied operands. */
	__asm__ volatile("movups (%0), %%xmm0\n\tmovups %%xmm0, 57(%0)\n\t"
					 "movq 8(%0,%1,4), %%rax\n\taddq %%rax, 16(%0,%1,8)\n\t"
					 "pushq 24(%0)\n\tpopq 32(%0)\n\tmovb $5, 40(%0)\n\tnotb 41(%0)\n\t"
					 "cmpl $3, 44(%0)\n\tsete 48(%0)\n\tbtsl $3, 52(%0)"
					 : : "r" (memory + 12288), "r" (5ull) : "rax", "xmm0", "memory", "cc");
	*(void (*volatile *) (void)) (memory + 16384) = callee;
	__asm__ volatile("call *(%0)" : : "r" (memory + 16384)
					 : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc");
}

int main(void)
{
	struct pollfd input = {.fd = 0, .events = POLLIN};
	char byte;
	uint8_t *memory = mmap((void *) 0x600000000000, 1 << 16, PROT_READ | PROT_WRITE,
						   MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	if (memory == MAP_FAILED)
		return 1;
	signal(SIGUSR1, nothing);
	for (;;)
	{
		poll(&input, 1, -1);
		if (read(0, &byte, 1) != 1)
			return 0;
		work(memory);
	}
}
