// SPDX-License-Identifier: BSD-3-Clause
// output.h - what rank 0 prints: heading and tables, or JSON
#ifndef GIN_PERF_OUTPUT_H
#define GIN_PERF_OUTPUT_H

#include <time.h>

#include "job.h"
#include "plan.h"

struct Heading {
	std::string program, date, launch; // launch: "processes" or "threads"
	Description job;
};

static inline std::string dateNow()
{
	char text[32];
	time_t now = time(nullptr);
	struct tm utc;
	gmtime_r(&now, &utc);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
	return text;
}

static inline void printHeading(const Heading &heading, const Options &o)
{
	const std::vector<PeerText> &peers = heading.job.peers;
	printf("# %s, %s, %s\n", heading.program.c_str(), heading.job.library.c_str(),
	       heading.date.c_str());
	printf("# %zu rank%s as %s, seed %llu, %s\n", peers.size(), peers.size() > 1 ? "s" : "",
	       heading.launch.c_str(), static_cast<unsigned long long>(o.seed),
	       o.check ? "every byte compared" : "bytes not compared");
	for (size_t peer = 0; peer < peers.size() && peer < 16; peer++)
		printf("# rank %zu: host %s, %s; route from rank 0: %s, %s\n", peer,
		       peers[peer].host.c_str(), peers[peer].device.c_str(),
		       peers[peer].route.c_str(), peers[peer].why.c_str());
	if (peers.size() > 16)
		printf("# and %zu more\n", peers.size() - 16);
}

static inline bool sameTable(const Case &a, const Case &b)
{
	return a.operation == b.operation && a.coop == b.coop && a.threads == b.threads &&
	       a.contexts == b.contexts && a.scratch == b.scratch && a.weak == b.weak &&
	       a.all == b.all;
}

static inline void printTableHead(const Case &c, bool percentiles)
{
	printf("\n# %s: %s%s%s\n# %s of %u threads, %u context%s, %u bytes of scratch\n",
	       c.operation->name, c.operation->what, c.weak ? ", weak, after a release" : "",
	       c.all ? ", each rank to all others" : "", coopName(c.coop), c.threads, c.contexts,
	       c.contexts > 1 ? "s" : "", c.scratch);
	printf("# %10s %10s", "bytes", "iterations");
	if (c.operation->stream)
		printf(" %5s %12s %10s %10s", "ctas", "us", "GB/s", "M msg/s");
	else if (percentiles)
		printf(" %9s %9s %9s %9s %9s %9s %9s", "min us", "mean us", "50% us", "90% us",
		       "99% us", "99.9% us", "max us");
	else
		printf(" %9s %9s %9s %9s", "min us", "mean us", "50% us", "max us");
	printf(" %8s\n", "wrong");
}

static inline void printRow(const Case &c, const CaseOutcome &r, bool percentiles)
{
	printf("  %10zu %10u", c.bytes, c.iterations);
	if (c.operation->stream)
		printf(" %5u %12.2f %10.3f %10.4f", c.ctas, r.seconds * 1e6, r.gigabytes,
		       r.megamessages);
	else if (percentiles)
		printf(" %9.3f %9.3f %9.3f %9.3f %9.3f %9.3f %9.3f", r.us.least, r.us.mean,
		       r.us.p50, r.us.p90, r.us.p99, r.us.p999, r.us.most);
	else
		printf(" %9.3f %9.3f %9.3f %9.3f", r.us.least, r.us.mean, r.us.p50, r.us.most);
	if (c.check)
		printf(" %8llu\n", static_cast<unsigned long long>(r.wrong));
	else
		printf(" %8s\n", "-");
	fflush(stdout);
}

static inline std::string quoted(const std::string &text)
{
	std::string out = "\"";
	for (char byte : text) {
		char code[8];
		if (byte == '"' || byte == '\\')
			out += '\\';
		if (static_cast<unsigned char>(byte) >= 0x20)
			out += byte;
		else if (snprintf(code, sizeof(code), "\\u%04x", byte) > 0)
			out += code;
	}
	return out + "\"";
}

class Json
{
public:
	explicit Json(const std::string &path)
	{
		if (path.empty())
			return;
		file = path == "-" ? stdout : fopen(path.c_str(), "w");
		if (!file)
			usageError("--json %s: %s", path.c_str(), strerror(errno));
	}

	void heading(const Heading &h, const Options &o)
	{
		if (!file)
			return;
		fprintf(file,
			"{\n \"program\": %s,\n \"library\": %s,\n \"date\": %s,\n"
			" \"launch\": %s,\n \"seed\": %llu,\n \"ranks\": [",
			quoted(h.program).c_str(), quoted(h.job.library).c_str(),
			quoted(h.date).c_str(), quoted(h.launch).c_str(),
			static_cast<unsigned long long>(o.seed));
		const char *between = "";
		for (const PeerText &peer : h.job.peers) {
			fprintf(file,
				"%s\n  {\"host\": %s, \"device\": %s, \"route\": %s, \"why\": %s}",
				between, quoted(peer.host).c_str(), quoted(peer.device).c_str(),
				quoted(peer.route).c_str(), quoted(peer.why).c_str());
			between = ",";
		}
		fprintf(file, "\n ],\n \"results\": [");
	}

	void row(const Case &c, const CaseOutcome &r)
	{
		if (!file)
			return;
		fprintf(file,
			"%s\n  {\"operation\": \"%s\", \"bytes\": %zu, \"iterations\": %u, "
			"\"coop\": "
			"\"%s\", \"threads\": %u, \"ctas\": %u, \"contexts\": %u, \"scratch\": %u, "
			"\"weak\": %s, \"all\": %s, ",
			between, c.operation->name, c.bytes, c.iterations, coopName(c.coop),
			c.threads, c.ctas, c.contexts, c.scratch, c.weak ? "true" : "false",
			c.all ? "true" : "false");
		between = ",";
		if (c.operation->stream)
			fprintf(file,
				"\"latency_us\": null, \"total_us\": %.3f, \"gb_per_s\": %.6f, "
				"\"m_msg_per_s\": %.6f, ",
				r.seconds * 1e6, r.gigabytes, r.megamessages);
		else
			latency(r.us);
		kernel(r.fit);
		if (c.check)
			fprintf(file, "\"wrong\": %llu}", static_cast<unsigned long long>(r.wrong));
		else
			fprintf(file, "\"wrong\": null}");
	}

	void end(uint64_t wrong)
	{
		if (!file)
			return;
		fprintf(file, "\n ],\n \"wrong\": %llu\n}\n",
			static_cast<unsigned long long>(wrong));
		int failed = ferror(file);
		if (file != stdout)
			failed |= fclose(file);
		if (failed)
			usageError("--json: the file could not be written");
	}

private:
	void latency(const Statistics &us)
	{
		fprintf(file,
			"\"latency_us\": {\"min\": %.4f, \"mean\": %.4f, \"p50\": %.4f, \"p90\": "
			"%.4f, \"p99\": %.4f, \"p99.9\": %.4f, \"max\": %.4f}, \"total_us\": null, "
			"\"gb_per_s\": null, \"m_msg_per_s\": null, ",
			us.least, us.mean, us.p50, us.p90, us.p99, us.p999, us.most);
	}

	void kernel(const KernelFit &fit)
	{
		if (!fit.registers) {
			fprintf(file, "\"kernel\": null, ");
			return;
		}
		fprintf(file,
			"\"kernel\": {\"registers\": %d, \"local_bytes\": %d, "
			"\"shared_bytes\": %d, \"blocks_per_sm\": %d, \"occupancy\": %.4f}, ",
			fit.registers, fit.localBytes, fit.sharedBytes, fit.blocksPerSm,
			fit.occupancy);
	}

	FILE *file = nullptr;
	const char *between = "";
};

#endif
