/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_pmix.c - what the bootstrap pmix asks of PMIx, and which answers it takes; this file has the
 * calls of PMIx
 */
/* COMPILE: -Itest/fake/pmix */
#include "bootstrap/meeting.h"

#include "lib/base/clock.h"
#include "test/arguments/arguments.h"

#include <fcntl.h>
#include <sys/wait.h>

#define ginBootstrapPmix pmixUnderTest
#include "bootstrap/pmix.c"

#define bootstrapPmixOps loadUnderTest
#define pluginOpen openUnderTest
#include "bootstrap/pmix_load.c"

static struct {
	uint32_t rank;
	char bytes[sizeof(struct rootContact) + 8];
	char put[64], asked[64]; /* keys */
	size_t size;
	int type;
	int fences, collected, wholeJob, finalized;
	int silentFences; /* never call back */
	int late;	  /* attempts before the value is there; every second one is not answered */
	void *open[64];	  /* calls that are not answered */
	int opens;
} pmix;

static void keepOpen(void *call)
{
	EXPECT(pmix.opens < 64);
	pmix.open[pmix.opens++] = call;
}

/* Answers that come after their calls were given up. */
static void answerAll(void)
{
	while (pmix.opens) {
		endCall(pmix.open[--pmix.opens], PMIX_SUCCESS, NULL);
		pmix.open[pmix.opens] = NULL; /* AddressSanitizer sees a call that is not freed */
	}
}

pmix_status_t PMIx_Init(pmix_proc_t *me, pmix_info_t *info, size_t n)
{
	(void)info;
	(void)n;
	*me = (pmix_proc_t){.nspace = "job", .rank = pmix.rank};
	return PMIX_SUCCESS;
}

pmix_status_t PMIx_Finalize(const pmix_info_t *info, size_t n)
{
	(void)info;
	(void)n;
	(void)!write(pmix.finalized, "", 1);
	return PMIX_SUCCESS;
}

pmix_status_t PMIx_Put(int scope, const char *key, pmix_value_t *value)
{
	(void)scope;
	snprintf(pmix.put, sizeof(pmix.put), "%s", key);
	EXPECT(value->data.bo.size <= sizeof(pmix.bytes));
	memcpy(pmix.bytes, value->data.bo.bytes, value->data.bo.size);
	pmix.size = value->data.bo.size;
	return PMIX_SUCCESS;
}

pmix_status_t PMIx_Commit(void)
{
	return PMIX_SUCCESS;
}

pmix_status_t PMIx_Fence_nb(const pmix_proc_t *procs, size_t nProcs, const pmix_info_t *info,
			    size_t n, pmix_op_cbfunc_t done, void *arg)
{
	bool yes = false;

	pmix.fences++;
	pmix.wholeJob = nProcs == 1 && procs->rank == PMIX_RANK_WILDCARD;
	for (size_t i = 0; i < n; i++)
		if (!strcmp(info[i].key, PMIX_COLLECT_DATA))
			memcpy(&yes, info[i].value, sizeof(yes));
	pmix.collected += yes;
	if (pmix.silentFences)
		keepOpen(arg);
	else
		done(PMIX_SUCCESS, arg);
	return PMIX_SUCCESS;
}

pmix_status_t PMIx_Get(const pmix_proc_t *proc, const char *key, const pmix_info_t *info, size_t n,
		       pmix_value_t **value)
{
	static pmix_value_t size = {.data.uint32 = 2};

	(void)proc;
	(void)info;
	(void)n;
	EXPECT_TEXT(key, PMIX_JOB_SIZE);
	*value = &size;
	return PMIX_SUCCESS;
}

pmix_status_t PMIx_Get_nb(const pmix_proc_t *proc, const char *key, const pmix_info_t *info,
			  size_t n, pmix_value_cbfunc_t done, void *arg)
{
	pmix_value_t found = {.type = pmix.type};

	(void)info;
	(void)n;
	EXPECT_EQUAL(proc->rank, 0);
	snprintf(pmix.asked, sizeof(pmix.asked), "%s", key);
	found.data.bo.bytes = pmix.bytes;
	found.data.bo.size = pmix.size;
	if (pmix.late > 0 && pmix.late-- % 2)
		done(PMIX_ERR_NOT_FOUND, NULL, arg);
	else if (pmix.late <= 0)
		done(PMIX_SUCCESS, &found, arg);
	else
		keepOpen(arg);
	return PMIX_SUCCESS;
}

const char *PMIx_Error_string(pmix_status_t status)
{
	return status ? "an error" : "success";
}

enum pluginResult openUnderTest(const struct plugin *plugin, const void **calls, char *why,
				size_t room)
{
	(void)why;
	(void)room;
	EXPECT_EQUAL(plugin->size, sizeof(pmixUnderTest));
	*calls = &pmixUnderTest;
	return pluginFound;
}

static uint64_t soon(void)
{
	return clockNow() + 5 * SECOND;
}

static void beRank(uint32_t rank)
{
	int n, me;
	char why[BOOTSTRAP_WHY] = "";

	pmix.rank = rank;
	pmix.type = PMIX_BYTE_OBJECT;
	EXPECT_EQUAL(pmixUnderTest.join(&me, &n, why), 0);
	EXPECT_EQUAL(me, (int)rank);
	EXPECT_EQUAL(n, 2);
}

/* Each share is one fence of the whole job, with data: without data Slurm does not wait. */
static void fences(void)
{
	char data[16] = "rank 0's bytes", why[BOOTSTRAP_WHY] = "";

	beRank(0);
	for (int i = 1; i < 4; i++) {
		EXPECT_EQUAL(pmixUnderTest.share(data, sizeof(data), soon(), why), 0);
		EXPECT_EQUAL(pmix.fences, i);
		EXPECT_EQUAL(pmix.collected, i);
		EXPECT(pmix.wholeJob);
	}
	EXPECT_TEXT(data, "rank 0's bytes");
}

/* Two programs that a script starts one after the other, each of which copies two values. */
static void script(void)
{
	static const char *const keys[] = {"gin.0.0", "gin.0.1", "gin.1.0", "gin.1.1"};
	char folder[] = "/tmp/gin-pmix-XXXXXX", path[64];
	char data[16] = "rank 0's bytes", why[BOOTSTRAP_WHY] = "";
	int status;

	EXPECT(mkdtemp(folder));
	setenv("PMIX_SERVER_TMPDIR", folder, 1);
	for (int program = 0; program < 2; program++) {
		pid_t child = fork();
		if (!child) {
			beRank(0);
			for (int i = 0; i < 2; i++) {
				EXPECT(!pmixUnderTest.share(data, sizeof(data), soon(), why));
				EXPECT_TEXT(pmix.put, keys[2 * program + i]);
				EXPECT_EQUAL(pmix.fences, program ? 0 : i + 1);
			}
			_exit(expectFailures != 0);
		}
		EXPECT(waitpid(child, &status, 0) == child && !status);
	}
	snprintf(path, sizeof(path), "%s/gin.job.0", folder);
	EXPECT(!unlink(path));
	EXPECT(!rmdir(folder));
}

/* The fence of a rank whose earlier process ends meanwhile is complete too early, or never. */
static void lateValue(void)
{
	char data[16] = "", why[BOOTSTRAP_WHY] = "";

	beRank(1);
	memcpy(pmix.bytes, "rank 0's bytes!", 16);
	pmix.size = 16;
	pmix.late = 3;
	EXPECT_EQUAL(pmixUnderTest.share(data, 16, soon(), why), 0);
	EXPECT_TEXT(data, "rank 0's bytes!");
	EXPECT_EQUAL(pmix.late, 0);
	pmix.silentFences = 1;
	memset(data, 0, sizeof(data));
	EXPECT_EQUAL(pmixUnderTest.share(data, 16, clockNow() + SECOND / 5, why), 0);
	EXPECT_TEXT(data, "rank 0's bytes!");
	pmix.late = 1 << 20;
	EXPECT_EQUAL(pmixUnderTest.share(data, 16, clockNow() + SECOND / 5, why), BOOTSTRAP_LATE);
	EXPECT_HAS(why, "rank 0 does not come to PMIx");
	EXPECT(pmix.opens);
	answerAll();
}

/* A value of another size or type comes from another libgin, and is not copied. */
static void otherValues(void)
{
	static const int sizes[] = {0, 15, 17, 24};
	char data[24], due[24], why[BOOTSTRAP_WHY] = "";

	beRank(1);
	memset(pmix.bytes, 'x', sizeof(pmix.bytes));
	memset(data, 'd', sizeof(data));
	memcpy(due, data, sizeof(due));
	for (size_t i = 0; i < 5; i++) {
		pmix.size = i < 4 ? (size_t)sizes[i] : 16;
		pmix.type = i < 4 ? PMIX_BYTE_OBJECT : PMIX_INT;
		EXPECT_EQUAL(pmixUnderTest.share(data, 16, soon(), why), -1);
		EXPECT_HAS(why, "rank 0 runs another libgin");
		EXPECT(!memcmp(data, due, sizeof(due)));
	}
	pmix.size = 16;
	pmix.type = PMIX_BYTE_OBJECT;
	EXPECT_EQUAL(pmixUnderTest.share(data, 16, soon(), why), 0);
	EXPECT(data[15] == 'x' && data[16] == 'd');
}

/* A process leaves the job when it exits; a child that it has forked does not. */
static void forkedChild(void)
{
	int channel[2], status;
	char byte;

	EXPECT(!pipe(channel));
	pmix.finalized = channel[1];
	pid_t parent = fork();
	if (!parent) {
		beRank(0);
		pid_t child = fork();
		if (!child)
			exit(0);
		EXPECT(waitpid(child, &status, 0) == child && !status);
		EXPECT_EQUAL(fcntl(channel[0], F_SETFL, O_NONBLOCK), 0);
		EXPECT_EQUAL(read(channel[0], &byte, 1), -1);
		exit(0);
	}
	EXPECT(waitpid(parent, &status, 0) == parent);
	EXPECT_EQUAL(status, 0);
	EXPECT_EQUAL(fcntl(channel[0], F_SETFL, O_NONBLOCK), 0);
	EXPECT_EQUAL(read(channel[0], &byte, 1), 1);
	EXPECT_EQUAL(read(channel[0], &byte, 1), -1);
}

/* Rank 0 could not start its root: its contact is empty, and no rank uses it. */
static void noContact(void)
{
	struct bootstrapWanted wanted = {
		.forced = "auto", .name = "", .seconds = 5, .deadline = soon()};
	char why[BOOTSTRAP_WHY] = "";
	void *state = NULL;
	int rank, nRanks;

	pmix.rank = 1;
	pmix.type = PMIX_BYTE_OBJECT;
	pmix.size = sizeof(struct rootContact);
	unsetenv("WORLD_SIZE");
	EXPECT_EQUAL(loadUnderTest.open(&wanted, &state, &rank, &nRanks, why), -1);
	EXPECT_HAS(why, "rank 0 could not start: see the messages of rank 0");
	EXPECT(!state);
	struct rootContact contact = {.magic = ROOT_MAGIC};
	memcpy(pmix.bytes, &contact, sizeof(contact));
	EXPECT_EQUAL(loadUnderTest.open(&wanted, &state, &rank, &nRanks, why), 0);
	EXPECT_EQUAL(rank, 1);
	loadUnderTest.close(state);
}

int main(void)
{
	prepareTests();
	unsetenv("PMIX_SERVER_TMPDIR");
	expectChild("fences with data", fences);
	expectChild("two programs in a script", script);
	expectChild("a value that comes late", lateValue);
	expectChild("values of another libgin", otherValues);
	expectChild("a forked child", forkedChild);
	expectChild("rank 0 has no contact", noContact);
	return expectFailures != 0;
}
