#include <stdio.h>

int main(void)
{
	puts("initdb (PostgreSQL) 15.99");
	return 0;
}
