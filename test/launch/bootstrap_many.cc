/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bootstrap_many.cc - several communicators at once: threads of each rank make them in an order of
 * their own, use them concurrently and leave them in any order
 *
 *	bootstrap_many --threads N	by unique ids, ranks are threads
 *	bootstrap_many --forks N	by unique ids
 *	bootstrap_many --tcp N		by name at GIN_ROOT, ranks are child processes
 *	bootstrap_many			by name, as the launcher does it
 */
/* COMPILE: -O0 */
#include "bootstrap.h"

enum { MANY = 4, ROUNDS = 3 };

static unsigned seed;

/* One communicator of one rank. */
struct Worker {
	ginConfig_t config;
	const ginUniqueId_t *id; /* nullptr: by config.name */
	int rank, nRanks;
	uint32_t tag;
	unsigned delays[3]; /* in microseconds */
	pthread_barrier_t *together;
};

static ginComm_t makeComm(const Worker &w)
{
	ginComm_t comm;

	if (w.id)
		CHECK(ginCommInitRank(&w.config, w.id, w.rank, w.nRanks, &comm));
	else
		CHECK(ginCommInit(&w.config, &comm));
	return comm;
}

static void *work(void *arg)
{
	Worker &w = *static_cast<Worker *>(arg);
	Rank r;

	usleep(w.delays[0]);
	r = rankTake(makeComm(w));
	EXPECT(r.rank == w.rank && r.nRanks == w.nRanks);
	pthread_barrier_wait(w.together); /* all of this rank's are there at once */
	exchange(r, w.tag);
	usleep(w.delays[1]);
	exchange(r, w.tag + 1);
	pthread_barrier_wait(w.together);
	usleep(w.delays[2]);
	rankClose(r);
	return nullptr;
}

/* The order is the rank's own. */
static void runWorkers(Worker (&workers)[MANY], int rank, int round)
{
	unsigned state = seed + static_cast<unsigned>(rank * ROUNDS + round);
	pthread_barrier_t together;
	pthread_t threads[MANY];

	pthread_barrier_init(&together, nullptr, MANY);
	for (int i = 0; i < MANY; i++) {
		workers[i].tag = static_cast<uint32_t>(round * 100 + i * 10);
		workers[i].together = &together;
		for (unsigned &delay : workers[i].delays)
			delay = static_cast<unsigned>(rand_r(&state)) % 4 * 3000;
		EXPECT(!pthread_create(&threads[i], nullptr, work, &workers[i]));
	}
	for (pthread_t thread : threads)
		pthread_join(thread, nullptr);
	pthread_barrier_destroy(&together);
}

static const char *const names[MANY] = {"", "gradients", "weights",
					"forty-seven characters are the most for a name."};

/* By name, next to an earlier communicator without a name. */
static int runNames(const ginConfig_t *config)
{
	Rank r;

	rankOpen(r, config);
	for (int round = 0; round < ROUNDS; round++) {
		Worker workers[MANY];
		for (int i = 0; i < MANY; i++) {
			workers[i] = {*config, nullptr, r.rank, r.nRanks, 0, {}, nullptr};
			workers[i].config.name = names[i];
		}
		runWorkers(workers, r.rank, round);
		exchange(r, 7);
	}
	rankClose(r);
	return 0;
}

/* Made by a process, or a thread, that is no rank. */
static ginUniqueId_t outsidersId;

static void joinOutsiders(const ginConfig_t *config)
{
	ginConfig_t mine = GIN_CONFIG_INIT;
	ginComm_t comm;
	Rank r;

	mine.name = config->rank ? "not the same on all ranks" : nullptr; /* ignored */
	CHECK(ginCommInitRank(&mine, &outsidersId, config->rank, config->nRanks, &comm));
	r = rankTake(comm);
	exchange(r, 9);
	rankClose(r);
}

/* By ids that one of the ranks made, another one each time. */
static int runIds(const ginConfig_t *config)
{
	ginUniqueId_t ids[MANY] = {};
	std::vector<ginUniqueId_t> all(static_cast<size_t>(config->nRanks) * MANY);

	joinOutsiders(config);
	for (int round = 0; round < ROUNDS; round++) {
		int maker = (round + 1) % config->nRanks;
		Worker workers[MANY];
		if (config->rank == maker)
			for (ginUniqueId_t &id : ids)
				CHECK(ginGetUniqueId(&id));
		EXPECT(!config->allgather(config->allgatherArg, ids, all.data(), sizeof(ids)));
		for (int i = 0; i < MANY; i++)
			workers[i] = {GIN_CONFIG_INIT,
				      &all[static_cast<size_t>(maker * MANY + i)],
				      config->rank,
				      config->nRanks,
				      0,
				      {},
				      nullptr};
		runWorkers(workers, config->rank, round);
	}
	return 0;
}

/* A child of the test: a launcher's variables, not the config, give its rank. */
static int runTcp(const ginConfig_t *config)
{
	ginConfig_t none = GIN_CONFIG_INIT;
	char rank[16], nRanks[16];

	snprintf(rank, sizeof(rank), "%d", config->rank);
	snprintf(nRanks, sizeof(nRanks), "%d", config->nRanks);
	setenv("RANK", rank, 1);
	setenv("WORLD_SIZE", nRanks, 1);
	return runNames(&none);
}

static int mainTcp(int argc, char **argv)
{
	char root[32], forks[] = "--forks";

	snprintf(root, sizeof(root), "127.0.0.1:%u", freePort());
	setenv("GIN_ROOT", root, 1);
	setenv("GIN_BOOTSTRAP", "tcp", 1);
	argv[1] = forks;
	return ranksMain(argc, argv, runTcp);
}

int main(int argc, char **argv)
{
	const char *given = getenv("SEED");

	seed = given ? static_cast<unsigned>(atol(given)) : static_cast<unsigned>(ginNow());
	printf("SEED=%u\n", seed);
	if (argc != 3)
		return ranksMain(argc, argv, runNames);
	if (!strcmp(argv[1], "--tcp"))
		return mainTcp(argc, argv);
	CHECK(ginGetUniqueId(&outsidersId));
	return ranksMain(argc, argv, runIds);
}
