/*
 * Counts the instructions of an emulated program: a plugin for qemu's user emulator.
 * Written against version 1 of the plugin interface (QEMU documentation, "QEMU TCG
 * Plugins"); its few declarations are repeated here, because Debian does not package
 * the header.
 *
 *   cc -shared -fPIC -o count.so count-foreign.c
 *   qemu-aarch64 -plugin ./count.so PROGRAM...    (counts to stderr at the end)
 *
 * aarch64 instructions are classified by their encodings (Arm Architecture
 * Reference Manual, C4.1, "Loads and Stores"): exclusive loads, and the LSE
 * atomics: CAS, CASP, SWP, and LDADD and similar.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef struct qemu_info_t qemu_info_t;
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *, enum qemu_plugin_op, void *, uint64_t);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, enum qemu_plugin_op, void *, uint64_t);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void *), void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
void qemu_plugin_outs(const char *);

int qemu_plugin_version __attribute__((visibility("default"))) = 1;

static uint64_t instructions, exclusive, lse;

static void
told(qemu_plugin_id_t id, void *data)
{
	char line[128];

	(void) id;
	(void) data;
	snprintf(line, sizeof line, "counted %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", instructions, exclusive, lse);
	/* Not by qemu's log, which is buffered and shared. */
	fputs(line, stderr);
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
		uint64_t *sum = NULL;

		memcpy(&word, qemu_plugin_insn_data(insn), sizeof word);
		if ((word & 0x3f000000) == 0x08000000)
		{
			/* bit 23: o2, 22: load, 21: o1. LDXR/LDXP and CASP share o2 = 0, CAS has o2 = o1 = 1. */
			int o2 = word >> 23 & 1, load = word >> 22 & 1, o1 = word >> 21 & 1;

			if (o2 && o1)
				sum = &lse;
			else if (!o2 && o1 && !(word >> 31))
				sum = &lse;		/* CASP */
			else if (!o2 && load)
				sum = &exclusive;
		}
		else if ((word & 0x3f200c00) == 0x38200000)
			/* opc 100 with o3 = 1 is LDAPR, an acquiring load and no atomic operation */
			sum = (word >> 12 & 0xf) == 0xc ? NULL : &lse;
		if (sum)
			qemu_plugin_register_vcpu_insn_exec_inline(insn, QEMU_PLUGIN_INLINE_ADD_U64, sum, 1);
	}
}

__attribute__((visibility("default"))) int
qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	(void) info;
	(void) argc;
	(void) argv;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, told, NULL);
	return 0;
}
