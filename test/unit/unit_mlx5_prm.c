/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_mlx5_prm.c - mlx5/prm.h: fields are read and written where they say, and none lies on
 * another
 *
 * test/lint/mlx5_prm compares the numbers with the hardware's, where there are headers that have
 * them.
 */
#include "mlx5/prm.h"

#include "hex.h"

struct entry {
	const char *name, *theirs;
	uint32_t field;
};

static const struct entry entries[] = {
#define SAME(own, structure, member) {#own, #structure, own},
#define PLACE(own, structure, member)
#define BYTES(own, structure)
#define NUMBER(own, theirs)
#include "mlx5_prm_list.h"
};

static const size_t count = sizeof(entries) / sizeof(entries[0]);

/* A field that two commands share has one place in both. */
static int sameBits(const struct entry *a, const struct entry *b)
{
	uint32_t from = fieldBit(a->field), to = from + fieldWidth(a->field);

	return !strcmp(a->theirs, b->theirs) && fieldBit(b->field) < to &&
	       from < fieldBit(b->field) + fieldWidth(b->field);
}

static void fieldsAreApart(void)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t width = fieldWidth(entries[i].field), bit = fieldBit(entries[i].field);

		expectThat(width == 64 ? bit % 32 == 0 : width > 0 && bit % 32 + width <= 32,
			   __FILE__, __LINE__, "%s does not lie in one word", entries[i].name);
		for (size_t k = 0; k < i; k++)
			expectThat(!sameBits(&entries[i], &entries[k]), __FILE__, __LINE__,
				   "%s lies on %s", entries[i].name, entries[k].name);
	}
	printf("ok: %zu fields\n", count);
}

/* All ones in a field change no other bit, and are read back. */
static void fieldsAreExact(void)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t bit = fieldBit(entries[i].field), width = fieldWidth(entries[i].field);
		uint8_t mailbox[QUERY_CAP_OUT_BYTES] = {0};
		uint64_t ones = width == 64 ? ~0ull : (1ull << width) - 1;

		fieldSet(mailbox, entries[i].field, ~0ull);
		expectThat(fieldGet(mailbox, entries[i].field) == ones, __FILE__, __LINE__,
			   "%s is not what was set", entries[i].name);
		for (uint32_t b = 0; b < 8 * sizeof(mailbox); b++)
			expectThat((mailbox[b / 8] >> (7 - b % 8) & 1) ==
					   (b >= bit && b < bit + width),
				   __FILE__, __LINE__, "%s: bit 0x%x", entries[i].name, b);
		memset(mailbox, 0xff, sizeof(mailbox));
		fieldSet(mailbox, entries[i].field, 0);
		EXPECT_EQUAL(fieldGet(mailbox, entries[i].field), 0);
		for (uint32_t b = 0; b < 8 * sizeof(mailbox); b++)
			expectThat((mailbox[b / 8] >> (7 - b % 8) & 1) !=
					   (b >= bit && b < bit + width),
				   __FILE__, __LINE__, "%s: bit 0x%x", entries[i].name, b);
	}
	printf("ok: each is written and read by itself\n");
}

/* INIT2RTR_QP as bytes: a context in a command, a path in the context. */
static void command(void)
{
	static const uint8_t gid[16] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8};
	uint8_t mailbox[MODIFY_QP_IN_BYTES] = {0}, expected[MODIFY_QP_IN_BYTES] = {0};
	uint32_t path = QP_IN_QPC + QPC_PRIMARY_PATH;

	fieldSet(mailbox, IN_OPCODE, COMMAND_INIT2RTR_QP);
	fieldSet(mailbox, QP_IN_QPN, 0xff123456);
	fieldSet(mailbox, fieldAt(QP_IN_QPC, QPC_MTU), 5);
	fieldSet(mailbox, fieldAt(QP_IN_QPC, QPC_LOG_MSG_MAX), 30);
	fieldSet(mailbox, fieldAt(QP_IN_QPC, QPC_REMOTE_QPN), 0xabcdef);
	fieldSet(mailbox, fieldAt(QP_IN_QPC, QPC_DBR_ADDR), 0x0123456789abcdef);
	fieldSet(mailbox, fieldAt(path, ADS_HOP_LIMIT), 64);
	memcpy(fieldBytes(mailbox, path + ADS_RGID), gid, sizeof(gid));

	hexRead("0503 0000 00000000 00123456 00000000", expected, 16);
	hexRead("be000000", expected + 32, 4);
	hexRead("00abcdef", expected + 44, 4);
	hexRead("00000040 00000000 fe800000 00000000 01020304 05060708", expected + 56, 24);
	hexRead("01234567 89abcdef", expected + 184, 8);
	for (size_t i = 0; i < sizeof(mailbox); i++)
		expectThat(mailbox[i] == expected[i], __FILE__, __LINE__,
			   "byte %zu is %02x, expected %02x", i, mailbox[i], expected[i]);
	printf("ok: INIT2RTR_QP\n");
}

int main(void)
{
	fieldsAreApart();
	fieldsAreExact();
	command();
	return 0;
}
