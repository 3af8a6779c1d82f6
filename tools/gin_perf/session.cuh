// SPDX-License-Identifier: BSD-3-Clause
// session.cuh - measures all cases on one rank and prints the results
#ifndef GIN_PERF_SESSION_CUH
#define GIN_PERF_SESSION_CUH

#include "measure.cuh"
#include "output.h"

// Returns the exit status of this rank.
template <class Job>
int runSession(Job &job, const std::vector<Options> &all, const Options &o, const char *program)
{
	std::vector<Case> cases = casesOf(all, job.nRanks, job.gpu);
	Meter<Job> meter(job, o, cases);
	Json json(job.rank ? "" : o.json);
	FILE *table = job.rank || o.json == "-" ? nullptr : stdout;
	uint64_t wrong = 0;

	if (!job.rank) {
		Heading heading = {program, dateNow(), o.ranks ? "threads" : "processes",
				   job.describe()};
		json.heading(heading, o);
		if (table)
			printHeading(heading, o);
	}
	for (size_t i = 0; i < cases.size(); i++) {
		if (table && (!i || !sameTable(cases[i - 1], cases[i])))
			printTableHead(cases[i], o.percentiles);
		CaseOutcome outcome = meter.measure(cases[i]);
		wrong += outcome.wrong;
		if (table)
			printRow(cases[i], outcome, o.percentiles);
		if (!job.rank)
			json.row(cases[i], outcome);
	}
	json.end(wrong);
	if (wrong)
		fprintf(stderr, "rank %d: %llu WRONG BYTES%s\n", job.rank,
			static_cast<unsigned long long>(wrong), job.rank ? " here" : " in all");
	return wrong != 0;
}

#endif
