/* SPDX-License-Identifier: BSD-3-Clause */
/* unit_gdaki_doorbell.c - doorbell pages are mapped once, for as long as a queue uses them */
#include "backends/gdaki/doorbell.h"
#include "expect.h"

enum { MOVED = 1 << 20 };

static char memory[3 * RDMA_PAGE] __attribute__((aligned(RDMA_PAGE)));
static int mapped[3]; /* by page */
static int answer, pointerAnswer;
static unsigned expectedFlags;

static unsigned pageOf(const void *at)
{
	return (unsigned)(((const char *)at - memory) / RDMA_PAGE);
}

static cuResult registerPage(void *at, size_t span, unsigned flags)
{
	if (answer)
		return answer;
	EXPECT_EQUAL(span, RDMA_PAGE);
	EXPECT_EQUAL(flags, expectedFlags);
	EXPECT_EQUAL(mapped[pageOf(at)]++, 0);
	return 0;
}

static cuResult unregisterPage(void *at)
{
	EXPECT_EQUAL(mapped[pageOf(at)]--, 1);
	return 0;
}

static cuResult pointer(cuPtr *out, void *at, unsigned flags)
{
	EXPECT_EQUAL(flags, 0);
	*out = (uintptr_t)at + MOVED;
	return pointerAnswer;
}

static cuResult words(cuResult result, const char **out)
{
	*out = "made up";
	return result < 0;
}

static const struct cuda driver = {.hostRegister = registerPage,
				   .hostUnregister = unregisterPage,
				   .hostDevicePointer = pointer,
				   .getErrorString = words};
static const struct device gpu = {.cuda = &driver};
static const struct device none = {.ordinal = GIN_DEVICE_NONE};

static struct rdmaRegister at(unsigned page, unsigned offset)
{
	char *start = memory + (size_t)page * RDMA_PAGE;

	return (struct rdmaRegister){start + offset, start, "NC"};
}

static void map(const struct rdmaRegister *where)
{
	void *kernels = NULL;

	EXPECT_SUCCESS(doorbellMap(&gpu, where, &kernels));
	EXPECT((char *)kernels == (char *)where->at + MOVED);
}

/* Two registers of one page, one of another. */
static void shared(void)
{
	struct rdmaRegister first = at(0, 0x800), second = at(0, 0xa00), third = at(2, 0x800);

	map(&first);
	map(&second);
	map(&third);
	map(&first);
	EXPECT(mapped[0] && !mapped[1] && mapped[2]);
	doorbellUnmap(&gpu, &first);
	doorbellUnmap(&gpu, &first);
	EXPECT(mapped[0]);
	doorbellUnmap(&gpu, &third);
	EXPECT(mapped[0] && !mapped[2]);
	doorbellUnmap(&gpu, &second);
	EXPECT(!mapped[0]);
}

/* A mapping that other code made stays. */
static void foreign(void)
{
	struct rdmaRegister where = at(1, 0x800);

	answer = cuAlreadyRegistered;
	map(&where);
	doorbellUnmap(&gpu, &where);
	EXPECT(!mapped[1]);
	answer = 0;
	map(&where);
	EXPECT(mapped[1]);
	doorbellUnmap(&gpu, &where);
}

static void refused(void)
{
	struct rdmaRegister where = at(1, 0x800);
	void *kernels = NULL;

	answer = 1;
	EXPECT_FAILS(doorbellMap(&gpu, &where, &kernels), ginErrorCuda, "doorbell register (NC)",
		     "made up", "GIN_UAR_MAP=plain");
	EXPECT(!kernels);
	EXPECT_SUCCESS(doorbellMap(&none, &where, &kernels));
	EXPECT(kernels == where.at);
	doorbellUnmap(&none, &where);
	answer = 0;
	pointerAnswer = 1;
	EXPECT_FAILS(doorbellMap(&gpu, &where, &kernels), ginErrorCuda,
		     "cuMemHostGetDevicePointer");
	EXPECT(!mapped[1]);
	pointerAnswer = 0;
	map(&where);
	doorbellUnmap(&gpu, &where);
}

static void plain(void)
{
	setenv("GIN_UAR_MAP", "plain", 1);
	expectedFlags = cuRegisterPortable | cuRegisterMapped;
	shared();
}

/* When the queues close, doorbells that kernels have left are rung. No thread rings here. */
static void left(void)
{
	struct gdakiRinger ringer = {.lock = PTHREAD_MUTEX_INITIALIZER,
				     .wake = PTHREAD_COND_INITIALIZER};
	uint64_t nic[2] = {0}, words[2] = {0}, *registers[2] = {&nic[0], &nic[1]};
	struct ringerWords w = {.words = words, .registers = registers, .count = 2};

	ringerAdd(&ringer, &w);
	words[1] = 7;
	ringerRemove(&ringer, &w);
	EXPECT(!ringer.list);
	EXPECT_EQUAL(nic[0], 0);
	EXPECT_EQUAL(nic[1], 7);
	EXPECT_EQUAL(words[1], 0);
}

int main(void)
{
	expectedFlags = cuRegisterPortable | cuRegisterMapped | cuRegisterIoMemory;
	expectChild("shared pages", shared);
	expectChild("foreign", foreign);
	expectChild("refused", refused);
	expectChild("plain", plain);
	expectChild("doorbells that are left", left);
	return expectFailures != 0;
}
