// SPDX-License-Identifier: BSD-3-Clause
// statistics.h - mean and percentiles
#ifndef GIN_PERF_STATISTICS_H
#define GIN_PERF_STATISTICS_H

#include <stddef.h>

#include <algorithm>
#include <numeric>
#include <vector>

struct Statistics {
	double least = 0, mean = 0, most = 0;
	double p50 = 0, p90 = 0, p99 = 0, p999 = 0;
};

// The smallest value such that `permille` thousandths of all values are not above it. In integers:
// 99.9 / 100 * 1000 is above 999 as a double.
static inline double percentile(const std::vector<double> &sorted, size_t permille)
{
	size_t rank = (permille * sorted.size() + 999) / 1000;
	return sorted[rank < 1 ? 0 : rank - 1];
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
	s.p50 = percentile(values, 500);
	s.p90 = percentile(values, 900);
	s.p99 = percentile(values, 990);
	s.p999 = percentile(values, 999);
	return s;
}

#endif
