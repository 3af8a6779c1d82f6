/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_tcp.c - GIN_ROOT, GIN_SECRET and the launcher's variables: what libgin reads from them, and
 * each text that it refuses
 *
 * Each test runs in a process of its own, as a process joins once.
 */
#include "bootstrap/meeting.h"

#include "test/arguments/arguments.h"

#include "lib/base/clock.h"

#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>

static struct bootstrapWanted wanted = {.forced = "auto",
					.root = "127.0.0.1:5000",
					.secret = "",
					.interface = "",
					.name = "",
					.seconds = 5};

static void setRank(const char *rank, const char *nRanks)
{
	setenv("RANK", rank, 1);
	setenv("WORLD_SIZE", nRanks, 1);
}

/* Rank 1 of 3, which has no root to start. */
static struct meeting *join(void)
{
	char why[BOOTSTRAP_WHY] = "";
	void *state = NULL;
	int rank = -1, nRanks = -1;

	int result = bootstrapTcpOps.open(&wanted, &state, &rank, &nRanks, why);
	expectThat(!result, __FILE__, __LINE__, "%s", why);
	EXPECT_EQUAL(rank, 1);
	EXPECT_EQUAL(nRanks, 3);
	return state;
}

static void expectRefused(const char *words)
{
	char why[BOOTSTRAP_WHY] = "";
	void *state = POISON;
	int rank = POISON_INT, nRanks = POISON_INT;

	EXPECT_EQUAL(bootstrapTcpOps.open(&wanted, &state, &rank, &nRanks, why), -1);
	EXPECT_HAS(why, words);
	EXPECT(state == POISON && rank == POISON_INT && nRanks == POISON_INT);
}

static void badRoots(void)
{
	static const char *const shapes[] = {
		"host",	   "host:",    ":5000",	      "host:0",	     "host:65536", "host:+5",
		"host: 5", "host:5 ",  "host:5x",     "host:-1",     "[::1]",	   "::1",
		"[::1]:",  "host:1e3", "host:000080", "host:123456", ":",	   "host:99999"};
	char longest[400] = "";

	setRank("1", "3");
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		char words[128];
		wanted.root = shapes[i];
		/* "::1" is read as host ":", port 1. */
		snprintf(words, sizeof(words), "GIN_ROOT=%s: %s", shapes[i],
			 strcmp(shapes[i], "::1") ? "must be host:port or [address]:port" : "");
		expectRefused(words);
	}
	memset(longest, 'h', sizeof(longest) - 1);
	memcpy(longest + 380, ":5000", 6);
	wanted.root = longest;
	expectRefused("must be host:port");
	wanted.root = "[]:5000";
	expectRefused("GIN_ROOT=[]:5000: ");
	wanted.root = "[fe80::1%lo]:5000"; /* fe80::1 of another host's interface */
	wanted.secret = "a secret";
	expectRefused("GIN_ROOT=[fe80::1%lo]:5000: a link-local address of IPv6");
	wanted.secret = "";
	wanted.root = "";
	expectRefused("GIN_BOOTSTRAP=tcp needs GIN_ROOT=host:port");
	wanted.root = "127.0.0.1:65535";
	free(join());
}

/* The name service knows late.invalid after some questions, and no other name. */
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
		struct addrinfo **list)
{
	int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
	static int questions;
	struct addrinfo numeric = *hints;

	*(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
	numeric.ai_flags |= AI_NUMERICHOST;
	if (strcmp(host, "late.invalid"))
		return real(host, port, &numeric, list);
	questions++;
	if (questions < 4)
		return questions % 2 ? EAI_NONAME : EAI_AGAIN;
	return real("127.0.0.9", port, &numeric, list);
}

static void lateNames(void)
{
	char why[BOOTSTRAP_WHY] = "";
	void *state;
	int rank, nRanks;

	setRank("1", "3");
	wanted.root = "never.invalid:5000";
	wanted.deadline = clockNow() + SECOND / 10;
	EXPECT_EQUAL(bootstrapTcpOps.open(&wanted, &state, &rank, &nRanks, why), BOOTSTRAP_LATE);
	EXPECT_HAS(why, "GIN_ROOT=never.invalid:5000: ");
	wanted.root = "late.invalid:5000";
	wanted.deadline = clockNow() + 60 * SECOND;
	struct meeting *meeting = join();
	EXPECT(!memcmp(meeting->contact.address[0].bytes, "\x7f\0\0\x09", 4));
	free(meeting);
}

static void badRanks(void)
{
	static const char *const pairs[][2] = {{"3", "3"},	 {"-1", "3"},
					       {"x", "3"},	 {"1", "y"},
					       {"1", "0"},	 {"0", "0"},
					       {"1 ", "3"},	 {"1.0", "3"},
					       {"0", "1048577"}, {"9999999999999999999", "3"},
					       {"1", "-3"}};

	expectRefused("set RANK (from 0) and WORLD_SIZE");
	setenv("RANK", "1", 1);
	expectRefused("set RANK (from 0) and WORLD_SIZE");
	setRank("", "3");
	expectRefused("set RANK (from 0) and WORLD_SIZE");
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		char words[96];
		setRank(pairs[i][0], pairs[i][1]);
		snprintf(words, sizeof(words), "RANK=%s and WORLD_SIZE=%s: must be numbers",
			 pairs[i][0], pairs[i][1]);
		expectRefused(words);
	}
	setRank("1048575", "1048576");
	char why[BOOTSTRAP_WHY] = "";
	void *state = NULL;
	int rank = -1, nRanks = -1;
	EXPECT_EQUAL(bootstrapTcpOps.open(&wanted, &state, &rank, &nRanks, why), 0);
	EXPECT(rank == ROOT_RANKS - 1 && nRanks == ROOT_RANKS);
	free(state);
}

/* The first complete pair counts. */
static void launchers(void)
{
	static const char *const pairs[][2] = {{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
					       {"PMI_RANK", "PMI_SIZE"},
					       {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
					       {"RANK", "WORLD_SIZE"}};
	char why[BOOTSTRAP_WHY] = "";
	int rank, nRanks;

	for (int i = 0; i < 4; i++) {
		char text[16];
		snprintf(text, sizeof(text), "%d", i);
		setenv(pairs[i][0], text, 1);
		if (i) { /* an incomplete pair does not count */
			EXPECT_EQUAL(launcherRank("auto", &rank, &nRanks, why), 0);
			EXPECT_EQUAL(rank, i - 1);
		}
		setenv(pairs[i][1], "8", 1);
		EXPECT_EQUAL(launcherRank("auto", &rank, &nRanks, why), 0);
		EXPECT_EQUAL(rank, i);
		EXPECT_EQUAL(nRanks, 8);
	}
	setenv("RANK", "99", 1);
	EXPECT_EQUAL(launcherRank("auto", &rank, &nRanks, why), -1);
	EXPECT_HAS(why, "RANK=99 and WORLD_SIZE=8");
}

/* Numbers of ranks by RANK, Open MPI, PMI and Slurm; 0: not set. */
struct numbers {
	int world, openMpi, pmi, slurm;
	int workers;	   /* LOCAL_WORLD_SIZE */
	const char *words; /* of the refusal; NULL: the first number counts */
	const char *forced;
};

static void setNumbers(const struct numbers *is)
{
	const char *const names[][2] = {{"RANK", "WORLD_SIZE"},
					{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
					{"PMI_RANK", "PMI_SIZE"},
					{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
					{"LOCAL_RANK", "LOCAL_WORLD_SIZE"}};
	const int numbers[] = {is->world, is->openMpi, is->pmi, is->slurm, is->workers};

	for (int i = 0; i < 5; i++) {
		char text[16];
		snprintf(text, sizeof(text), "%d", numbers[i]);
		unsetenv(names[i][0]);
		unsetenv(names[i][1]);
		if (numbers[i]) {
			setenv(names[i][0], "0", 1);
			setenv(names[i][1], text, 1);
		}
	}
}

static int firstOf(const struct numbers *is)
{
	const int numbers[] = {is->world, is->openMpi, is->pmi, is->slurm};
	int i = 0;

	while (!numbers[i])
		i++;
	return numbers[i];
}

static void contradictions(void)
{
	static const struct numbers cases[] = {
		{.world = 1,
		 .slurm = 2,
		 .words = "RANK=0 and WORLD_SIZE=1, but SLURM_STEP_NUM_TASKS=2"},
		{.world = 1, .openMpi = 2, .words = "or set GIN_BOOTSTRAP=self"},
		{.world = 1, .pmi = 2, .words = "PMI_SIZE=2", .forced = "tcp"},
		{.world = 1, .slurm = 4, .workers = 1, .words = "SLURM_STEP_NUM_TASKS=4"},
		{.openMpi = 1,
		 .slurm = 2,
		 .words = "OMPI_COMM_WORLD_SIZE=1, but SLURM_STEP_NUM_TASKS=2"},
		{.world = 4, .openMpi = 2, .words = "or set GIN_BOOTSTRAP=tcp if the first two"},
		{.world = 4, .openMpi = 2, .forced = "tcp"},
		{.world = 4, .openMpi = 8, .workers = 2, .words = "OMPI_COMM_WORLD_SIZE=8"},
		/* torchrun by mpirun, by srun; both by mpirun whose daemons srun has started */
		{.world = 4, .openMpi = 2, .workers = 2},
		{.world = 16, .slurm = 2, .workers = 8},
		{.world = 16, .openMpi = 2, .slurm = 5, .workers = 8},
		{.openMpi = 16, .slurm = 3},
		{.pmi = 16, .slurm = 3},
		{.world = 4, .openMpi = 4, .pmi = 4, .slurm = 4},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *forced = cases[i].forced ? cases[i].forced : "auto";
		char why[BOOTSTRAP_WHY] = "";
		int rank = POISON_INT, nRanks = POISON_INT;
		setNumbers(&cases[i]);
		int refused = launcherRank(forced, &rank, &nRanks, why);
		expectThat(refused == (cases[i].words ? -1 : 0), __FILE__, __LINE__, "case %zu: %s",
			   i, why);
		EXPECT_HAS(why, cases[i].words ? cases[i].words : "");
		EXPECT_EQUAL(nRanks, refused ? POISON_INT : firstOf(&cases[i]));
	}
}

/* What PMIx says is compared, too. Workers of an agent meet at GIN_ROOT where there is one. */
static void besidePmix(void)
{
	static const struct numbers stale = {.world = 1, .openMpi = 2},
				    nested = {.world = 4, .openMpi = 2, .workers = 2},
				    daemons = {.openMpi = 1, .slurm = 2};
	struct bootstrapWanted where = wanted;
	char why[BOOTSTRAP_WHY] = "";

	setenv("PMIX_NAMESPACE", "job", 1);
	setNumbers(&stale);
	EXPECT_EQUAL(launcherAgrees("auto", 2, why), -1);
	EXPECT_HAS(why, "PMIx says that there are 2 ranks, WORLD_SIZE=1: set GIN_BOOTSTRAP=pmix");
	EXPECT_EQUAL(launcherAgrees("pmix", 2, why), 0);
	EXPECT(bootstrapChoose(&where, why) == &bootstrapPmixOps);
	setNumbers(&nested);
	EXPECT(bootstrapChoose(&where, why) == &bootstrapTcpOps);
	where.root = "";
	EXPECT(bootstrapChoose(&where, why) == &bootstrapPmixOps);
	EXPECT_EQUAL(launcherAgrees("auto", 2, why), -1);
	EXPECT_HAS(why, "WORLD_SIZE=4");
	setNumbers(&daemons);
	EXPECT_EQUAL(launcherAgrees("auto", 1, why), 0);
	EXPECT_EQUAL(launcherAgrees("auto", 3, why), -1);
	EXPECT_HAS(why, "OMPI_COMM_WORLD_SIZE=1");
}

static void expectJob(const char *due)
{
	char job[BOOTSTRAP_JOB];

	launcherJob(job);
	EXPECT_TEXT(job, due);
}

/* The launcher that gives the rank gives the job's number, too. */
static void jobs(void)
{
	expectJob("");
	setenv("SLURM_JOB_ID", "12", 1);
	setenv("SLURM_STEP_ID", "3", 1);
	expectJob("");
	setenv("SLURM_PROCID", "1", 1);
	setenv("SLURM_STEP_NUM_TASKS", "3", 1);
	expectJob("12.3");
	setenv("SLURM_HET_SIZE", "2", 1);
	expectJob("");
	unsetenv("SLURM_HET_SIZE");
	setenv("PMIX_NAMESPACE", "prterun-7@1", 1);
	expectJob("12.3");
	setenv("OMPI_COMM_WORLD_RANK", "1", 1);
	setenv("OMPI_COMM_WORLD_SIZE", "3", 1);
	expectJob("prterun-7@1");
	setRank("1", "3");
	expectJob("");
	setenv("TORCHELASTIC_RUN_ID", "run", 1);
	expectJob("run");
	struct meeting *meeting = join();
	EXPECT_TEXT(meeting->job, "run");
	bootstrapTcpOps.close(meeting);
}

static void ipv4(void)
{
	setRank("1", "3");
	wanted.root = "127.0.0.7:4711";
	struct meeting *meeting = join();
	EXPECT_EQUAL(meeting->contact.port, 4711);
	EXPECT_EQUAL(meeting->contact.addresses, 1);
	EXPECT_EQUAL(meeting->contact.address[0].family, AF_INET);
	EXPECT(!memcmp(meeting->contact.address[0].bytes, "\x7f\0\0\x07", 4));
	EXPECT(meeting->patient);
	free(meeting);
}

static void ipv6(void)
{
	static const uint8_t own[16] = {[15] = 1};

	setRank("1", "3");
	wanted.root = "[::1]:1";
	struct meeting *meeting = join();
	EXPECT_EQUAL(meeting->contact.port, 1);
	EXPECT_EQUAL(meeting->contact.address[0].family, AF_INET6);
	EXPECT(!memcmp(meeting->contact.address[0].bytes, own, 16));
	free(meeting);
}

/* A root that other hosts can reach needs a secret; one on loopback does not. */
static void openRoots(void)
{
	static const char *const open[] = {"192.0.2.1:5000", "[2001:db8::1]:5000", "0.0.0.0:5000",
					   "[::]:5000", "128.0.0.1:5000"};

	setRank("1", "3");
	for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++) {
		char words[96];
		wanted.root = open[i];
		snprintf(words, sizeof(words),
			 "GIN_ROOT=%s is open to other hosts: set GIN_SECRET, on all ranks",
			 open[i]);
		expectRefused(words);
	}
	wanted.secret = "s";
	free(join());
}

static void keyOf(const char *secret, uint8_t key[AUTH_KEY_BYTES])
{
	int channel[2], status;

	EXPECT(!pipe(channel));
	pid_t child = fork();
	if (!child) {
		wanted.secret = secret;
		setRank("1", "3");
		struct meeting *meeting = join();
		EXPECT(write(channel[1], meeting->contact.key, AUTH_KEY_BYTES) == AUTH_KEY_BYTES);
		_exit(0);
	}
	EXPECT(read(channel[0], key, AUTH_KEY_BYTES) == AUTH_KEY_BYTES);
	EXPECT(waitpid(child, &status, 0) == child && !status);
	close(channel[0]);
	close(channel[1]);
}

/* Equal texts give equal keys, different texts keys that differ in both halves. */
static void secrets(void)
{
	static const char *const texts[] = {
		"", "a", "b", "ab", "a long random text, A", "a long random text, B"};
	enum { TEXTS = sizeof(texts) / sizeof(texts[0]) };
	uint8_t key[TEXTS][AUTH_KEY_BYTES], again[AUTH_KEY_BYTES];

	for (int i = 0; i < TEXTS; i++) {
		keyOf(texts[i], key[i]);
		keyOf(texts[i], again);
		EXPECT(!memcmp(key[i], again, sizeof(again)));
		EXPECT(memcmp(key[i], key[i] + 8, 8));
		for (int j = 0; j < i; j++)
			EXPECT(memcmp(key[i], key[j], 8) && memcmp(key[i] + 8, key[j] + 8, 8));
	}
}

static void expectName(const char *name, uint32_t generation)
{
	struct meeting *meeting = join();

	EXPECT_TEXT(meeting->name, name);
	EXPECT_EQUAL(meeting->generation, generation);
	free(meeting);
}

/* Each name has its own count, and a restart counts from 0 again. */
static void names(void)
{
	char longest[48];

	setRank("1", "3");
	expectName("/", 0);
	expectName("/", 1);
	wanted.name = "a";
	expectName("/a", 0);
	setenv("TORCHELASTIC_RESTART_COUNT", "1", 1);
	expectName("1/a", 0);
	wanted.name = "";
	expectName("1/", 0);
	unsetenv("TORCHELASTIC_RESTART_COUNT");
	expectName("/", 2);
	memset(longest, 'n', 47);
	longest[47] = '\0';
	wanted.name = longest;
	setenv("TORCHELASTIC_RESTART_COUNT", "123456789012", 1);
	char whole[64];
	snprintf(whole, sizeof(whole), "123456789012/%s", longest);
	expectName(whole, 0);
	longest[46] = 'm';
	whole[59] = 'm';
	expectName(whole, 0);
}

int main(void)
{
	unsetenv("RANK");
	unsetenv("WORLD_SIZE");
	prepareTests();
	expectChild("texts that are no place", badRoots);
	expectChild("ranks that there are not", badRanks);
	expectChild("variables of launchers", launchers);
	expectChild("variables that contradict each other", contradictions);
	expectChild("PMIx and variables", besidePmix);
	expectChild("names that come late", lateNames);
	expectChild("numbers of jobs", jobs);
	expectChild("IPv4", ipv4);
	expectChild("IPv6", ipv6);
	expectChild("open to others", openRoots);
	expectChild("secrets", secrets);
	expectChild("names", names);
	return expectFailures != 0;
}
