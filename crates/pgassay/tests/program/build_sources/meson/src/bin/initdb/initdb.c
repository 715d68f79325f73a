#include <stdio.h>

int main(void)
{
	puts("initdb (PostgreSQL) 16.99");
	return 0;
}
