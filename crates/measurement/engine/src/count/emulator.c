/*
 * Counts what each process of an emulated program executes: a plugin over plugin.h.
 *
 *   qemu-aarch64 -plugin count.so,out=DIR PROGRAM...
 *
 * A process that ends by itself writes DIR/emulator.PID: instructions, exclusive (or
 * reserving) loads, single atomic instructions. A process that was forked counts from its
 * fork.
 */
#include "plugin.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

static uint64_t instructions, exclusive, single;
static pid_t counted;
static int64_t exit_group;
static char out[PATH_MAX];

static void
translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);

	(void) id;
	qemu_plugin_register_vcpu_tb_exec_inline(tb, ADD, &instructions, n);
	for (size_t i = 0; i < n; i++)
	{
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		enum class	what = class_of(insn);

		if (what == IS_EXCLUSIVE_LOAD || what == IS_ATOMIC)
			qemu_plugin_register_vcpu_insn_exec_inline(insn, ADD, what == IS_ATOMIC ? &single : &exclusive, 1);
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
	uint32_t	one = 1;

	/* Instructions are read as words of this machine. */
	if (*(unsigned char *) &one != 1 || !machine_is(info->target_name))
	{
		fprintf(stderr, "pgassay's counter does not know the processor %s\n", info->target_name);
		return -1;
	}
	/* Linux: asm-generic/unistd.h, and the syscall tables of powerpc and x86. */
	exit_group = machine == AARCH64 ? 94 : machine == PPC64LE ? 234 : 231;
	for (int i = 0; i < argc; i++)
		if (strncmp(argv[i], "out=", 4) == 0)
			snprintf(out, sizeof out, "%s", argv[i] + 4);
	counted = getpid();
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_vcpu_syscall_cb(id, called);
	return 0;
}
