// SPDX-License-Identifier: BSD-3-Clause
// statistics.h - mean and percentiles
#ifndef GIN_PERF_STATISTICS_H
#define GIN_PERF_STATISTICS_H

#include <math.h>
#include <stddef.h>

#include <algorithm>
#include <numeric>
#include <vector>

struct Statistics {
	double least = 0, mean = 0, most = 0;
	double p50 = 0, p90 = 0, p99 = 0, p999 = 0;
};

// The smallest value such that `percent` of all values are not above it.
static inline double percentile(const std::vector<double> &sorted, double percent)
{
	double rank = ceil(percent / 100 * static_cast<double>(sorted.size()));
	return sorted[rank < 1 ? 0 : static_cast<size_t>(rank) - 1];
}

static inline Statistics statisticsOf(std::vector<double> values)
{
	Statistics s;
	if (values.empty())
		return s;
	std::sort(values.begin(), values.end());
	s.least = values.front();
	s.most = values.back();
	s.mean = std::accumulate(values.begin(), values.end(), 0.0) /
		 static_cast<double>(values.size());
	s.p50 = percentile(values, 50);
	s.p90 = percentile(values, 90);
	s.p99 = percentile(values, 99);
	s.p999 = percentile(values, 99.9);
	return s;
}

#endif
