// SPDX-License-Identifier: BSD-3-Clause
// store - ranks that share nothing but a key-value store find each other
//
// The store here is a directory that all ranks see. It has the three calls of torch.distributed's
// Store, which stands in its place in a torch program (C++: c10d::Store of the process group):
//   set(key, bytes)   store->set(key, std::vector<uint8_t>)
//   get(key)          store->get(key): waits for the key, too
//   prefix            PrefixStore: ranks of different groups or restarts do not meet
//
// Whoever reads the id can join: the directory should be readable by the job's user alone.
//   for r in 0 1 2; do RANK=$r WORLD_SIZE=3 ./store /tmp/a-new-directory & done; wait
#include "shift.h"

#include <unistd.h>

#include <string>

struct Store {
	std::string directory, prefix;

	std::string path(const std::string &key) const { return directory + "/" + prefix + key; }

	// Whole or not at all: a file gets its name when all of it is written.
	void set(const std::string &key, const void *bytes, size_t count) const
	{
		std::string to = path(key), from = to + "." + std::to_string(getpid());
		FILE *file = fopen(from.c_str(), "wb");
		check(file && fwrite(bytes, 1, count, file) == count && !fclose(file) &&
			      !rename(from.c_str(), to.c_str()),
		      to.c_str());
	}

	// Waits for the key; false when it has not come within a minute or has another size.
	bool get(const std::string &key, void *bytes, size_t count) const
	{
		FILE *file = nullptr;
		for (int i = 0; !file && i < 6000; i++) {
			file = fopen(path(key).c_str(), "rb");
			if (!file)
				usleep(10000);
		}
		size_t got = file ? fread(bytes, 1, count, file) : 0;
		if (file)
			fclose(file);
		return got == count;
	}
};

struct Job {
	Store store;
	int rank, nRanks;
	int gathered; // makes keys fresh: a store keeps what was set before
};

static int variable(const char *name, int preset)
{
	const char *text = getenv(name);
	return text ? atoi(text) : preset;
}

// As torchrun says it. After a restart by it the keys of before are not taken for those of now.
static Job readJob(const char *directory)
{
	return {{directory,
		 "gin." + std::to_string(variable("TORCHELASTIC_RESTART_COUNT", 0)) + "."},
		variable("RANK", 0),
		variable("WORLD_SIZE", 1),
		0};
}

// One way: rank 0 puts an id into the store, and all bring it to libgin.
static Ranks openById(const Job &job)
{
	ginUniqueId_t id;
	ginComm_t comm;

	if (job.rank == 0) {
		CHECK(ginGetUniqueId(&id));
		job.store.set("id", &id, sizeof(id));
	}
	check(job.store.get("id", &id, sizeof(id)), "no id from rank 0");
	CHECK(ginCommInitRank(nullptr, &id, job.rank, job.nRanks, &comm));
	return describe(comm);
}

// The other way: libgin gathers through the store.
static int allgather(void *arg, const void *in, void *out, size_t bytes)
{
	Job *job = static_cast<Job *>(arg);
	std::string key = "allgather." + std::to_string(job->gathered++) + ".";

	job->store.set(key + std::to_string(job->rank), in, bytes);
	for (int r = 0; r < job->nRanks; r++)
		if (!job->store.get(key + std::to_string(r),
				    static_cast<char *>(out) + static_cast<size_t>(r) * bytes,
				    bytes))
			return -1;
	return 0;
}

static Ranks openByAllgather(Job *job)
{
	ginConfig_t config = GIN_CONFIG_INIT;
	config.allgather = allgather;
	config.allgatherArg = job;
	config.rank = job->rank;
	config.nRanks = job->nRanks;
	return openRanks(&config);
}

static int shiftAndClose(const Ranks &r)
{
	int wrong = report(r, shiftOnce(r, 1 << 16));
	CHECK(ginCommDestroy(r.comm));
	return wrong;
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "%s DIRECTORY: one that all ranks see, empty\n", argv[0]);
		return 1;
	}
	Job job = readJob(argv[1]);
	int wrong = shiftAndClose(openById(job));
	return shiftAndClose(openByAllgather(&job)) || wrong;
}
