/* SPDX-License-Identifier: BSD-3-Clause */
/* jobs.h - jobs at GIN_ROOT that run concurrently; a rank is a child process, which has a body */
#ifndef GIN_TEST_JOBS_H
#define GIN_TEST_JOBS_H

#include "bootstrap.h"
#include "files.h"

#include <signal.h>

#include <functional>
#include <string>

struct Process {
	std::vector<std::string> variables;
	std::function<void()> body;
};

struct Job {
	std::string name;
	std::vector<pid_t> children;
	bool failed;
};

inline std::vector<Job> jobs;

inline void startJob(const std::string &name, const std::vector<Process> &processes)
{
	Job job = {name, {}, false};

	fflush(nullptr);
	for (const Process &process : processes) {
		pid_t child = fork();
		EXPECT(child >= 0);
		if (!child) {
			for (const std::string &variable : process.variables)
				EXPECT(!putenv(strdup(variable.c_str())));
			process.body();
			exit(0); /* with atexit: sanitizers report */
		}
		job.children.push_back(child);
	}
	jobs.push_back(job);
}

/* The others of a job that has failed might wait for ever. */
inline void endProcess(pid_t child, bool ok)
{
	for (Job &job : jobs)
		for (pid_t &one : job.children)
			if (one == child) {
				one = 0;
				job.failed |= !ok;
				for (pid_t other : job.children)
					if (!ok && other)
						kill(other, SIGKILL);
			}
}

inline int endJobs()
{
	int failures = 0, status;
	pid_t child;

	while ((child = wait(&status)) > 0)
		endProcess(child, status == 0);
	for (const Job &job : jobs) {
		printf("%s: %s\n", job.failed ? "failed" : "ok", job.name.c_str());
		failures += job.failed;
	}
	return failures;
}

/* Several communicators, one after the other; an allgather that is set is not used. */
inline void meets(int rank, int nRanks)
{
	for (const char *name : {"", "second", "", "second"}) {
		ginConfig_t config = GIN_CONFIG_INIT;
		Rank r;
		config.name = name;
		rankOpen(r, &config);
		EXPECT(r.rank == rank && r.nRanks == nRanks);
		exchange(r, static_cast<uint32_t>(strlen(name)));
		rankClose(r);
	}
}

/* No communicator, with these words. */
inline std::function<void()> failsWith(std::vector<std::string> words, ginResult_t result)
{
	return [=] {
		ginComm_t comm = nullptr;
		EXPECT_FAILS(ginCommInit(nullptr, &comm), result, "ginCommInit");
		for (const std::string &word : words)
			EXPECT_FAILS(result, result, word.c_str());
		EXPECT(!comm);
	};
}

/* Also checks that no descriptor is left open. */
inline std::function<void()> fails(std::vector<std::string> words,
				   ginResult_t result = ginErrorBootstrap)
{
	return [=] {
		int files = countFiles();
		failsWith(words, result)();
		EXPECT(countFiles() == files);
	};
}

inline std::string newRoot(const std::string &host = "127.0.0.1")
{
	return "GIN_ROOT=" + host + ":" + std::to_string(freePort());
}

inline std::vector<std::string> rankOf(int rank, int nRanks, std::vector<std::string> more)
{
	more.push_back("RANK=" + std::to_string(rank));
	more.push_back("WORLD_SIZE=" + std::to_string(nRanks));
	return more;
}

/* All of the job's ranks have these variables. */
inline std::vector<Process> world(int nRanks, const std::vector<std::string> &variables)
{
	std::vector<Process> processes;

	for (int r = 0; r < nRanks; r++)
		processes.push_back({rankOf(r, nRanks, variables), [=] { meets(r, nRanks); }});
	return processes;
}

inline std::function<void()> after(const int *count, int least, std::function<void()> body)
{
	return [=] {
		awaitCount(count, least);
		body();
	};
}

inline std::function<void()> counted(std::function<void()> body, int *count)
{
	return [=] {
		body();
		add(count);
	};
}

inline std::function<void()> late(std::function<void()> body)
{
	return [=] {
		usleep(300000);
		body();
	};
}

/* Does a process listen at the port of GIN_ROOT? */
inline bool isListening(const std::string &root)
{
	sockaddr_in at = {};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	EXPECT(fd >= 0);
	at.sin_family = AF_INET;
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	at.sin_port = htons(static_cast<uint16_t>(atoi(root.c_str() + root.rfind(':') + 1)));
	int failed = connect(fd, reinterpret_cast<sockaddr *>(&at), sizeof(at));
	close(fd);
	return !failed;
}

#endif
