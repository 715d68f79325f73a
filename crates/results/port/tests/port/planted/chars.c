#include <stdio.h>

struct entry
{
	char sign;
	char name[16];
};

int count(FILE *f)
{
	char c;
	int n = 0;

	while ((c = getc(f)) != EOF) /* PLANTED char-negative */
		n++;
	return n;
}

int is_control(const char *p)
{
	return *p < ' '; /* PLANTED char-sign */
}

int is_ascii(char c)
{
	return c < 128; /* PLANTED char-sign */
}

int is_negative(struct entry *e)
{
	return e->sign < 0; /* PLANTED char-negative */
}

int compare(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a < *b ? -1 : *a > *b; /* PLANTED char-order PLANTED char-order */
}

unsigned hash(const char *p)
{
	unsigned h = 5381;

	while (*p)
		h = h * 33 + *p++; /* PLANTED char-hash */
	return h;
}

unsigned hash_by_xor(const char *p, int n)
{
	unsigned h = 0;

	for (int i = 0; i < n; i++)
	{
		h ^= p[i]; /* PLANTED char-hash */
		h *= 16777619u;
	}
	return h;
}

static const char values[4] = {-1, 0, 1, 2}; /* PLANTED char-sign */
