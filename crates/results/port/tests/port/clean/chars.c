#include <ctype.h>
#include <stdio.h>

int is_digit(const char *p)
{
	return *p >= '0' && *p <= '9';
}

int is_no_digit(char c)
{
	return c < '0' || c > '9';
}

int is_high(const char *p)
{
	return (unsigned char) *p >= 0x80 || *p & 0x80;
}

int digits(const char *p)
{
	int n = 0;

	while (isdigit((unsigned char) *p) && *p >= '5')
		n = n * 10 + *p++ - '0';
	return n;
}

int count(FILE *f)
{
	int c;
	int n = 0;

	while ((c = getc(f)) != EOF)
		n++;
	return n;
}

int compare(const unsigned char *a, const unsigned char *b)
{
	signed char kind = 0;

	if (*a)
	{
		char kind = 'x';

		if (kind == 'x')
			return 0;
	}
	return kind < 0 || *a < *b;
}

unsigned hash(const char *p)
{
	unsigned h = 0;

	while (*p)
		h = h * 31 + (unsigned char) *p++;
	return h;
}

int in_range(char c)
{
	return c > 0 && c < 127;
}
