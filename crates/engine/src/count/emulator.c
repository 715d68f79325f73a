/*
 * Counts what each process of an emulated server executes: a plugin for qemu's user
 * emulator. Written against version 1 of the plugin interface (QEMU documentation, "QEMU
 * TCG Plugins"); its few declarations are repeated here, because distributions do not
 * package the header.
 *
 *   qemu-aarch64 -plugin count.so,out=DIR PROGRAM...
 *
 * A process that ends by itself writes DIR/emulator.PID: instructions, exclusive (or
 * reserving) loads, single atomic instructions. A process that was forked counts from its
 * fork. Instructions are told apart by their encodings: for aarch64 Arm Architecture
 * Reference Manual, C4.1, "Loads and Stores"; for POWER Power ISA 3.1, Book II, 4.6.2,
 * "Load and Reserve", and 4.5, "Atomic Memory Operations".
 */
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef struct qemu_info_t
{
	const char *target_name;
} qemu_info_t;
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *, enum qemu_plugin_op, void *, uint64_t);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, enum qemu_plugin_op, void *, uint64_t);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t,
		void (*)(qemu_plugin_id_t, unsigned int, int64_t, uint64_t, uint64_t, uint64_t, uint64_t,
				 uint64_t, uint64_t, uint64_t, uint64_t));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);

int qemu_plugin_version __attribute__((visibility("default"))) = 1;

static uint64_t instructions, exclusive, single;
static pid_t counted;
static bool is_power;
static int64_t exit_group;
static char out[PATH_MAX];

/* aarch64: exclusive loads, and the atomics of LSE: CAS, CASP, SWP, LDADD and similar. */
static uint64_t *
arm(uint32_t word)
{
	if ((word & 0x3f000000) == 0x08000000)
	{
		/* bit 23: o2, 22: load, 21: o1. LDXR/LDXP and CASP share o2 = 0, CAS has o2 = o1 = 1. */
		int o2 = word >> 23 & 1, load = word >> 22 & 1, o1 = word >> 21 & 1;

		if (o2 && o1)
			return &single;
		if (!o2 && o1 && !(word >> 31))
			return &single;		/* CASP */
		if (!o2 && load)
			return &exclusive;
	}
	else if ((word & 0x3f200c00) == 0x38200000)
		/* opc 100 with o3 = 1 is LDAPR, an acquiring load and no atomic operation */
		return (word >> 12 & 0xf) == 0xc ? NULL : &single;
	return NULL;
}

/* POWER: l[bhwdq]arx, and the far atomics lwat, ldat, stwat, stdat. */
static uint64_t *
power(uint32_t word)
{
	if (word >> 26 != 31)
		return NULL;
	switch (word >> 1 & 0x3ff)
	{
		case 20: case 52: case 84: case 116: case 276:
			return &exclusive;
		case 582: case 614: case 710: case 742:
			return &single;
		default:
			return NULL;
	}
}

static void
translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);

	(void) id;
	qemu_plugin_register_vcpu_tb_exec_inline(tb, QEMU_PLUGIN_INLINE_ADD_U64, &instructions, n);
	for (size_t i = 0; i < n; i++)
	{
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint32_t word;
		uint64_t *sum;

		memcpy(&word, qemu_plugin_insn_data(insn), sizeof word);
		sum = is_power ? power(word) : arm(word);
		if (sum)
			qemu_plugin_register_vcpu_insn_exec_inline(insn, QEMU_PLUGIN_INLINE_ADD_U64, sum, 1);
	}
}

static void
written(void)
{
	char path[PATH_MAX + 64], whole[PATH_MAX + 64];
	FILE *file;

	/* Renamed into its place, so that what can be read is whole. */
	snprintf(path, sizeof path, "%s/.emulator.%d", out, (int) counted);
	snprintf(whole, sizeof whole, "%s/emulator.%d", out, (int) counted);
	file = fopen(path, "w");
	if (file == NULL)
		return;
	fprintf(file, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", instructions, exclusive, single);
	if (fclose(file) == 0)
		rename(path, whole);
}

/* Each system call: a process that was forked begins anew, one that ends is written down. */
static void
called(qemu_plugin_id_t id, unsigned int cpu, int64_t number, uint64_t a1, uint64_t a2, uint64_t a3,
	   uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8)
{
	(void) id, (void) cpu, (void) a1, (void) a2, (void) a3, (void) a4;
	(void) a5, (void) a6, (void) a7, (void) a8;
	if (getpid() != counted)
	{
		counted = getpid();
		instructions = exclusive = single = 0;
	}
	if (number == exit_group)
		written();
}

__attribute__((visibility("default"))) int
qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	uint32_t one = 1;

	is_power = strncmp(info->target_name, "ppc64", 5) == 0;
	/* Instructions are read as words of this machine. */
	if (*(unsigned char *) &one != 1 ||
		(strcmp(info->target_name, "aarch64") != 0 && strcmp(info->target_name, "ppc64le") != 0))
	{
		fprintf(stderr, "pgassay's counter does not know the processor %s\n", info->target_name);
		return -1;
	}
	/* Linux: asm-generic/unistd.h, and arch/powerpc/kernel/syscalls/syscall.tbl. */
	exit_group = is_power ? 234 : 94;
	for (int i = 0; i < argc; i++)
		if (strncmp(argv[i], "out=", 4) == 0)
			snprintf(out, sizeof out, "%s", argv[i] + 4);
	counted = getpid();
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_vcpu_syscall_cb(id, called);
	return 0;
}
