// SPDX-License-Identifier: BSD-3-Clause
// job.h - description of a job, for the heading of the output
#ifndef GIN_PERF_JOB_H
#define GIN_PERF_JOB_H

#include <string>
#include <vector>

struct PeerText {
	std::string host, device, route, why;
};

struct Description {
	std::string library;
	std::vector<PeerText> peers; // by rank, as rank 0 sees them
};

#endif
