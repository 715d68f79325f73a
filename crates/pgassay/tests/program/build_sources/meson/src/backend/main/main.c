/* the fixture's server */
#include <stdio.h>
#include <string.h>

int lwlock_acquire(int *lock);
int spin(int turns);
const char *word(int n);

int main(int argc, char **argv)
{
	int lock = 0;

	if (argc > 1 && strcmp(argv[1], "--version") == 0)
		printf("postgres (PostgreSQL) %s\n", word(spin(3)));
	return lwlock_acquire(&lock) - 1;
}
