// SPDX-License-Identifier: BSD-3-Clause
// store - ranks find each other through a key-value store
//
// The store of this example is a directory that all ranks can access. In a torch program, use the
// process group's store (C++: c10d::Store), which has these calls:
//   set(key, bytes)   store->set(key, std::vector<uint8_t>)
//   get(key)          store->get(key), which also waits for the key
//   prefix            PrefixStore: keeps groups and restarts apart
//
// Every process that can read the id can join the job: make the directory readable by the job's
// user only.
//   for r in 0 1 2; do RANK=$r WORLD_SIZE=3 ./store /tmp/a-new-directory & done; wait
#include "shift.h"

#include <unistd.h>

#include <string>

struct Store {
	std::string directory, prefix;

	std::string path(const std::string &key) const { return directory + "/" + prefix + key; }

	// Writes a temporary file and renames it, so that readers never see a part of the bytes.
	void set(const std::string &key, const void *bytes, size_t count) const
	{
		std::string to = path(key), from = to + "." + std::to_string(getpid());
		FILE *file = fopen(from.c_str(), "wb");
		check(file && fwrite(bytes, 1, count, file) == count && !fclose(file) &&
			      !rename(from.c_str(), to.c_str()),
		      to.c_str());
	}

	// Waits for the key. Returns false when it is missing after a minute, or too short.
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
	int gathered; // number of allgathers so far: each one uses new keys
};

static int variable(const char *name, int preset)
{
	const char *text = getenv(name);
	return text ? atoi(text) : preset;
}

// Reads the variables that torchrun sets. The prefix contains the restart count: keys of an earlier
// start must not be read after a restart.
static Job readJob(const char *directory)
{
	return {{directory,
		 "gin." + std::to_string(variable("TORCHELASTIC_RESTART_COUNT", 0)) + "."},
		variable("RANK", 0),
		variable("WORLD_SIZE", 1),
		0};
}

// First way: rank 0 stores a unique id, and all ranks pass the id to libgin.
static Rank openById(const Job &job)
{
	ginUniqueId_t id;
	ginComm_t comm;

	if (job.rank == 0) {
		CHECK(ginGetUniqueId(&id));
		job.store.set("id", &id, sizeof(id));
	}
	check(job.store.get("id", &id, sizeof(id)), "no id from rank 0");
	CHECK(ginCommInitRank(nullptr, &id, job.rank, job.nRanks, &comm));
	return rankTake(comm);
}

// Second way: libgin calls an allgather that uses the store.
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

static Rank openByAllgather(Job *job)
{
	ginConfig_t config = GIN_CONFIG_INIT;
	config.allgather = allgather;
	config.allgatherArg = job;
	config.rank = job->rank;
	config.nRanks = job->nRanks;
	return rankOpen(&config);
}

static int shiftAndClose(const Rank &r)
{
	int wrong = report(r, shiftOnce(r, 1 << 16));
	rankClose(r);
	return wrong;
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: %s DIRECTORY (empty, and accessible to all ranks)\n",
			argv[0]);
		return 1;
	}
	Job job = readJob(argv[1]);
	int wrong = shiftAndClose(openById(job));
	return shiftAndClose(openByAllgather(&job)) || wrong;
}
