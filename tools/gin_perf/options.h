// SPDX-License-Identifier: BSD-3-Clause
// options.h - the command line
#ifndef GIN_PERF_OPTIONS_H
#define GIN_PERF_OPTIONS_H

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <string>
#include <vector>

#include "operations.h"

struct Options {
	std::vector<const Operation *> operations;
	size_t begin = 8;
	size_t end = 0;		 // 0: the operation's default
	uint32_t factor = 2;	 // from one size to the next
	uint32_t iterations = 0; // 0: the operation's default
	uint32_t warmup = 20;
	bool check = true;
	uint32_t threads = 0; // per CTA; 0: 256 on a GPU, one warp on host threads
	std::vector<uint32_t> ctas = {1};
	uint32_t contexts = 1;
	int coop = -1;	      // enum ginCoopKind; -1: the operation's default
	uint32_t scratch = 0; // bytes of shared memory for each coop
	bool weak = false;
	bool all = false;
	char breaks = 0; // self-test changes: 'd', a byte of data; 'g', a guard byte
	// Options of the whole job:
	std::string route, json, cases;
	bool percentiles = false;
	bool host = false;
	uint32_t ranks = 0; // ranks that are threads of this process; 0: a launcher starts them
	uint64_t seed = 1;
	uint32_t timeout = 60; // of each wait, in seconds
};

__attribute__((format(printf, 1, 2))) static inline void usageError(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, format, args);
	fprintf(stderr, "; -h lists the options\n");
	exit(2);
}

static inline void printUsage()
{
	printf("usage: %s [options]\n"
	       "  -o OP[,OP...]       what to measure (put_lat,put_bw)\n",
	       program_invocation_short_name);
	for (const Operation &operation : operations)
		printf("     %-16s %s\n", operation.name, operation.what);
	printf("  -b BYTES            smallest size (8); a number may end in K, M or G\n"
	       "  -e BYTES            largest size (default: depends on the operation)\n"
	       "  -f FACTOR           ratio of each size to the size before (2)\n"
	       "  -n COUNT            iterations (default: depends on the operation)\n"
	       "  -w COUNT            warm-up iterations, which are not counted (20)\n"
	       "  -c 0|1              compare every byte after each launch (1)\n"
	       "  -t THREADS          threads per CTA (256; on host threads one warp)\n"
	       "  -g CTAS[,CTAS...]   number of CTAs, for bandwidths and rates (1)\n"
	       "  -x CONTEXTS         number of contexts; CTA i uses context i modulo it (1)\n"
	       "  --coop KIND         threads that make a call together: thread, warp or cta\n"
	       "                      (default: depends on the operation)\n"
	       "  --scratch BYTES     shared memory that each coop passes to put and get (0)\n"
	       "  --weak              signal_lat: weak signals, after an explicit release\n"
	       "  --all               bandwidths, rates: each rank to all other ranks at once\n"
	       "  --route ROUTE       auto, direct or network: sets GIN_ROUTE\n"
	       "  --host              use host threads even if there is a GPU\n"
	       "  --threads N         run N ranks as threads of this process\n"
	       "  --json FILE         also write the results to FILE; -: JSON only, to stdout\n"
	       "  --percentiles       print more columns\n"
	       "  --cases FILE        measure the options of each line of FILE, in one job\n"
	       "  --seed N            seed of the bytes that are sent (1)\n"
	       "  --timeout SECONDS   time limit of each wait (60)\n"
	       "  --break data|guard  self-test: change a byte before the comparison\n"
	       "  -h, --help          print this text\n"
	       "  --version           of gin_perf, alone: print its version and libgin's\n");
}

static inline uint64_t numberOption(const char *text, const char *name, uint64_t least,
				    uint64_t most)
{
	char *end;
	errno = 0;
	uint64_t value = strtoull(text, &end, 10);
	const char *units = "KMG", *unit = *end ? strchr(units, *end & ~0x20) : nullptr;

	if (unit && end != text) {
		uint64_t scale = 1ull << 10 * (unit - units + 1);
		value = value > UINT64_MAX / scale ? UINT64_MAX : value * scale;
		end++;
	}
	if (end == text || *end || errno || *text == '-' || value < least || value > most)
		usageError("%s %s: must be a number from %llu to %llu", name, text,
			   static_cast<unsigned long long>(least),
			   static_cast<unsigned long long>(most));
	return value;
}

static inline uint32_t countOption(const char *text, const char *name, uint32_t least,
				   uint32_t most)
{
	return static_cast<uint32_t>(numberOption(text, name, least, most));
}

// Index of the word in a list; ends the program when the list lacks the word.
static inline int wordOption(const char *text, const char *name, const char *const *words)
{
	for (int i = 0; words[i]; i++)
		if (!strcmp(text, words[i]))
			return i;
	usageError("%s: unknown value %s", name, text);
	return -1;
}

static inline void operationsOption(Options &options, const char *text)
{
	options.operations.clear();
	for (const char *at = text; *at;) {
		size_t length = strcspn(at, ",");
		const Operation *operation = operationNamed(at, length);
		if (!operation)
			usageError("-o %.*s: no such operation", static_cast<int>(length), at);
		options.operations.push_back(operation);
		at += length + (at[length] == ',');
	}
}

static inline void ctasOption(Options &options, const char *text)
{
	options.ctas.clear();
	for (const char *at = text; *at;) {
		std::string one(at, strcspn(at, ","));
		options.ctas.push_back(countOption(one.c_str(), "-g", 1, 65536));
		at += one.size() + (at[one.size()] == ',');
	}
	if (options.ctas.empty())
		usageError("-g needs a number");
}

static const char *const coopWords[] = {"thread", "warp", "cta", nullptr};
static const char *const routeWords[] = {"auto", "direct", "network", nullptr};
static const char *const breakWords[] = {"data", "guard", nullptr};

enum LongOption {
	longCoop = 256,
	longScratch,
	longWeak,
	longAll,
	longRoute,
	longHost,
	longThreads,
	longJson,
	longPercentiles,
	longCases,
	longSeed,
	longTimeout,
	longBreak
};

// Handles an option of one measurement. Returns false for any other option.
static inline bool caseOption(Options &o, int option, const char *text)
{
	const uint32_t many = 1u << 30;
	switch (option) {
	case 'o':
		return operationsOption(o, text), true;
	case 'b':
		return o.begin = numberOption(text, "-b", 0, 1ull << 40), true;
	case 'e':
		return o.end = numberOption(text, "-e", 1, 1ull << 40), true;
	case 'f':
		return o.factor = countOption(text, "-f", 2, 1u << 20), true;
	case 'n':
		return o.iterations = countOption(text, "-n", 1, many), true;
	case 'w':
		return o.warmup = countOption(text, "-w", 0, many), true;
	case 'c':
		return o.check = countOption(text, "-c", 0, 1) != 0, true;
	case 't':
		return o.threads = countOption(text, "-t", 1, 1024), true;
	case 'g':
		return ctasOption(o, text), true;
	case 'x':
		return o.contexts = countOption(text, "-x", 1, GIN_MAX_CONTEXTS), true;
	case longCoop:
		return o.coop = wordOption(text, "--coop", coopWords), true;
	case longScratch:
		return o.scratch = countOption(text, "--scratch", 0, 227u << 10), true;
	case longWeak:
		return o.weak = true;
	case longAll:
		return o.all = true;
	case longBreak:
		return o.breaks = breakWords[wordOption(text, "--break", breakWords)][0], true;
	}
	return false;
}

// Handles an option of the whole job.
static inline void jobOption(Options &o, int option, const char *text)
{
	switch (option) {
	case longRoute:
		o.route = routeWords[wordOption(text, "--route", routeWords)];
		break;
	case longHost:
		o.host = true;
		break;
	case longThreads:
		o.ranks = countOption(text, "--threads", 1, 64);
		break;
	case longJson:
		o.json = text;
		break;
	case longPercentiles:
		o.percentiles = true;
		break;
	case longCases:
		o.cases = text;
		break;
	case longSeed:
		o.seed = numberOption(text, "--seed", 0, UINT64_MAX);
		break;
	case longTimeout:
		o.timeout = countOption(text, "--timeout", 1, 100000);
		break;
	case 'h':
		printUsage();
		exit(0);
	default:
		usageError("wrong option");
	}
}

static inline void parseOptions(Options &options, int argc, char **argv)
{
	static const struct option names[] = {
		{"coop", required_argument, nullptr, longCoop},
		{"scratch", required_argument, nullptr, longScratch},
		{"weak", no_argument, nullptr, longWeak},
		{"all", no_argument, nullptr, longAll},
		{"route", required_argument, nullptr, longRoute},
		{"host", no_argument, nullptr, longHost},
		{"threads", required_argument, nullptr, longThreads},
		{"json", required_argument, nullptr, longJson},
		{"percentiles", no_argument, nullptr, longPercentiles},
		{"cases", required_argument, nullptr, longCases},
		{"seed", required_argument, nullptr, longSeed},
		{"timeout", required_argument, nullptr, longTimeout},
		{"break", required_argument, nullptr, longBreak},
		{"help", no_argument, nullptr, 'h'},
		{},
	};
	int option;
	optind = 0; // restart getopt: --cases parses every line
	while ((option = getopt_long(argc, argv, "o:b:e:f:n:w:c:t:g:x:h", names, nullptr)) != -1)
		if (!caseOption(options, option, optarg))
			jobOption(options, option, optarg);
	if (optind < argc)
		usageError("unexpected argument %s", argv[optind]);
	if (options.end && options.end < options.begin)
		usageError("-e %zu: must be at least -b, which is %zu", options.end, options.begin);
	if (options.operations.empty())
		operationsOption(options, "put_lat,put_bw");
}

// The command line's options, overridden by the options of a line of --cases.
static inline Options caseOptions(const Options &base, std::string line)
{
	std::vector<char *> argv = {program_invocation_short_name};
	char *left = nullptr;
	for (char *word = strtok_r(&line[0], " \t\n", &left); word;
	     word = strtok_r(nullptr, " \t\n", &left))
		argv.push_back(word);
	int argc = static_cast<int>(argv.size());
	argv.push_back(nullptr);
	Options options = base;
	parseOptions(options, argc, argv.data());
	return options;
}

// The options of each line of --cases, empty lines and comments left out; without --cases, the
// command line's.
static inline std::vector<Options> allOptions(const Options &base)
{
	std::vector<Options> all;
	if (base.cases.empty())
		return {base};
	FILE *file = fopen(base.cases.c_str(), "r");
	if (!file)
		usageError("--cases %s: %s", base.cases.c_str(), strerror(errno));
	char *line = nullptr;
	size_t capacity = 0;
	while (getline(&line, &capacity, file) > 0)
		if (line[strspn(line, " \t\n")] && line[0] != '#')
			all.push_back(caseOptions(base, line));
	free(line);
	fclose(file);
	return all;
}

#endif
