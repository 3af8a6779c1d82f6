/* SPDX-License-Identifier: BSD-3-Clause */
#include "store.h"

#include <stdbool.h>
#include <string.h>
#include <ucontext.h>

#if defined(__x86_64__)

/* The prefixes of the opcode, and the opcode. */
struct instruction {
	const uint8_t *at;
	bool narrow, wide, isVex, upperRegister; /* 16 bits, 64 bits, AVX, xmm8 and on */
	uint8_t repeat;				 /* 0xf2, 0xf3 or 0 */
	uint8_t map;				 /* 0: one byte, 1: after 0x0f */
	uint8_t opcode, modrm;
};

static const int registers[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
				  REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
				  REG_R12, REG_R13, REG_R14, REG_R15};

static void takePrefixes(struct instruction *in)
{
	for (;; in->at++) {
		if (*in->at == 0x66)
			in->narrow = true;
		else if (*in->at == 0xf2 || *in->at == 0xf3)
			in->repeat = *in->at;
		else
			break;
	}
	if ((*in->at & 0xf0) == 0x40) {
		in->wide = *in->at & 8;
		in->upperRegister = *in->at & 4;
		in->at++;
	}
}

/* Of 128 bits only; the wide ones' upper halves lie elsewhere. */
static bool takeVex(struct instruction *in)
{
	bool isLong = *in->at == 0xc4;
	uint8_t last = in->at[isLong ? 2 : 1];

	in->isVex = true;
	in->upperRegister = !(in->at[1] & 0x80);
	if ((isLong && (in->at[1] & 0x1f) != 1) || last & 4)
		return false;
	in->wide = isLong && last & 0x80;
	in->narrow = (last & 3) == 1;
	in->repeat = (last & 3) == 2 ? 0xf3 : (last & 3) == 3 ? 0xf2 : 0;
	in->map = 1;
	in->at += isLong ? 3 : 2;
	in->opcode = *in->at++;
	return true;
}

static bool takeOpcode(struct instruction *in)
{
	takePrefixes(in);
	if (*in->at == 0xc4 || *in->at == 0xc5) {
		if (!takeVex(in))
			return false;
	} else {
		in->map = *in->at == 0x0f;
		in->at += in->map;
		in->opcode = *in->at++;
	}
	in->modrm = *in->at++;
	return in->modrm >> 6 != 3;
}

/* The address itself is known from the fault: it is only stepped over. */
static void skipAddress(struct instruction *in)
{
	uint8_t mod = in->modrm >> 6, rm = in->modrm & 7;
	uint8_t base = rm;

	if (rm == 4)
		base = *in->at++ & 7;
	if (mod == 1)
		in->at += 1;
	else if (mod == 2 || (mod == 0 && base == 5))
		in->at += 4;
}

static size_t width(const struct instruction *in)
{
	if (in->wide)
		return 8;
	return in->narrow ? 2 : 4;
}

static int registerNumber(const struct instruction *in)
{
	return (in->modrm >> 3 & 7) + (in->upperRegister ? 8 : 0);
}

static size_t storeGeneral(const struct instruction *in, ucontext_t *context, uint8_t *to)
{
	greg_t *source = &context->uc_mcontext.gregs[registers[registerNumber(in)]];

	if (width(in) == 8)
		__atomic_store_n((uint64_t *)(void *)to, (uint64_t)*source, __ATOMIC_SEQ_CST);
	else
		memcpy(to, source, width(in));
	return width(in);
}

static size_t exchangeGeneral(const struct instruction *in, ucontext_t *context, uint8_t *to)
{
	greg_t *source = &context->uc_mcontext.gregs[registers[registerNumber(in)]];
	uint64_t before = 0, value = (uint64_t)*source;
	size_t bytes = width(in);

	memcpy(&before, to, bytes);
	memcpy(to, &value, bytes);
	if (bytes >= 4)
		*source = (greg_t)before;
	else
		memcpy(source, &before, bytes);
	return bytes;
}

static size_t storeImmediate(struct instruction *in, uint8_t *to)
{
	size_t bytes = width(in), encoded = bytes == 2 ? 2 : 4;
	int32_t narrow = 0;

	memcpy(&narrow, in->at, encoded);
	int64_t value = narrow;
	memcpy(to, &value, bytes);
	in->at += encoded;
	return bytes;
}

static size_t storeVector(const struct instruction *in, const ucontext_t *context, uint8_t *to,
			  size_t bytes)
{
	const void *vectors = context->uc_mcontext.fpregs->_xmm;

	memcpy(to, (const uint8_t *)vectors + 16 * registerNumber(in), bytes);
	return bytes;
}

/* mov, xchg, and mov of an immediate. */
static size_t oneByte(struct instruction *in, ucontext_t *context, uint8_t *to)
{
	switch (in->opcode) {
	case 0x89:
		return storeGeneral(in, context, to);
	case 0x87:
		return exchangeGeneral(in, context, to);
	case 0xc7:
		return storeImmediate(in, to);
	default:
		return 0;
	}
}

/* movnti; movups, movaps, movntps; movdqa, movdqu, movntdq; movq, movlps. */
static size_t twoBytes(const struct instruction *in, ucontext_t *context, uint8_t *to)
{
	switch (in->opcode) {
	case 0xc3:
		return storeGeneral(in, context, to);
	case 0x11:
		return in->repeat ? storeVector(in, context, to, in->repeat == 0xf2 ? 8 : 4)
				  : storeVector(in, context, to, 16);
	case 0x29:
	case 0x2b:
	case 0xe7:
		return storeVector(in, context, to, 16);
	case 0x7f:
		return in->narrow || in->repeat ? storeVector(in, context, to, 16) : 0;
	case 0xd6:
	case 0x13:
		return storeVector(in, context, to, 8);
	case 0x7e:
		return in->narrow ? storeVector(in, context, to, in->wide ? 8 : 4) : 0;
	default:
		return 0;
	}
}

size_t storeEmulate(void *context, uint8_t *to)
{
	ucontext_t *thread = context;
	greg_t *next = &thread->uc_mcontext.gregs[REG_RIP];
	struct instruction in = {.at = (const uint8_t *)*next};
	size_t bytes;

	if (!takeOpcode(&in))
		return 0;
	skipAddress(&in);
	bytes = in.map ? twoBytes(&in, thread, to) : oneByte(&in, thread, to);
	if (bytes)
		*next = (greg_t)in.at;
	return bytes;
}

#else

size_t storeEmulate(void *context, uint8_t *to)
{
	(void)context;
	(void)to;
	return 0;
}

#endif
