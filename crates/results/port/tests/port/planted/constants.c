#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGE_SIZE 4096 /* PLANTED page-size */
#define CACHE_LINE_SIZE 64 /* PLANTED cache-line-size */

struct counter
{
	long value;
} __attribute__((aligned(64))); /* PLANTED cache-line-size */

void *get(size_t n)
{
	return mmap(NULL, (n + 4095) & ~4095, PROT_READ, MAP_PRIVATE, -1, 0); /* PLANTED page-size */
}

uint32_t field(const char *record, int offset)
{
	return *(const uint32_t *) (record + offset); /* PLANTED unaligned */
}

uint16_t second(unsigned char *record)
{
	return *(uint16_t *) &record[1]; /* PLANTED unaligned */
}

double datum(void *arg)
{
	return *(double *) VARDATA_ANY(arg); /* PLANTED unaligned */
}
