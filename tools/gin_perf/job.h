// SPDX-License-Identifier: BSD-3-Clause
// job.h - what is said about a job before it measures
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
