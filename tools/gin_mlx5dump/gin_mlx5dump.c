/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gin_mlx5dump.c - decodes an mlx5 send or completion queue, and explains mlx5 numbers
 *
 * The bytes come from a file. No device and no driver is needed.
 */
#include "gin_mlx5dump.h"

#include "mlx5/words.h"

#include <errno.h>
#include <getopt.h>
#include <gin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
	"usage: gin_mlx5dump [options] sq [file]\n"
	"       gin_mlx5dump [options] cq [file]\n"
	"       gin_mlx5dump syndrome|status|event|device-event number...\n"
	"\n"
	"Decodes each WQE of a send queue (sq), or each CQE of a completion queue (cq), and "
	"reports\n"
	"malformed ones; or explains numbers. Without a file, reads standard input.\n"
	"\n"
	"  -x, --hex           the file contains hex digits\n"
	"  -b, --binary        the file contains bytes; without -x and -b, the content decides\n"
	"  -f, --first slot    start at this slot: slot 0 may hold the end of a WQE that wraps\n"
	"  -i, --index number  expected index of the first WQE\n"
	"  -q, --queue number  expected number of the queue pair\n"
	"  -h, --help          print this text\n"
	"      --version       print the versions of gin_mlx5dump and libgin\n"
	"\n"
	"Exit status: 0 if the queue is well-formed; 1 if an element is malformed; 2 if the\n"
	"arguments are wrong or the file cannot be read.\n";

struct dumpOptions {
	enum dumpFormat format;
	struct expectedQueue expected;
};

static int printVersion(void)
{
	int version = 0;

	if (ginGetVersion(&version) != ginSuccess)
		return 2;
	printf("gin_mlx5dump %d.%d.%d, libgin %d.%d.%d\n", GIN_VERSION_MAJOR, GIN_VERSION_MINOR,
	       GIN_VERSION_PATCH, version / 10000, version / 100 % 100, version % 100);
	return 0;
}

/* Reads a number from 0 to 0xffffffff in C notation; -1 after printing an error. */
static long number(const char *text)
{
	char *end;

	errno = 0;
	unsigned long value = strtoul(text, &end, 0);
	if (!errno && *text >= '0' && *text <= '9' && !*end && value <= UINT32_MAX)
		return (long)value;
	fprintf(stderr, "gin_mlx5dump: %s is not a 32-bit number\n", text);
	return -1;
}

static int numberOption(const char *text, long *out)
{
	*out = number(text);
	return *out < 0 ? 2 : -1;
}

/* Returns the exit status, or -1 to go on. */
static int readOption(int option, struct dumpOptions *options)
{
	switch (option) {
	case 'x':
		options->format = formatHex;
		return -1;
	case 'b':
		options->format = formatBinary;
		return -1;
	case 'f':
		return numberOption(optarg, &options->expected.first);
	case 'i':
		return numberOption(optarg, &options->expected.index);
	case 'q':
		return numberOption(optarg, &options->expected.queue);
	case 'h':
		fputs(usage, stdout);
		return 0;
	case 'v':
		return printVersion();
	default:
		fputs(usage, stderr);
		return 2;
	}
}

static int readOptions(int argc, char **argv, struct dumpOptions *options)
{
	static const struct option all[] = {
		{"hex", no_argument, NULL, 'x'},	 {"binary", no_argument, NULL, 'b'},
		{"first", required_argument, NULL, 'f'}, {"index", required_argument, NULL, 'i'},
		{"queue", required_argument, NULL, 'q'}, {"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'v'},	 {NULL, 0, NULL, 0},
	};
	int option, status = -1;

	while (status < 0 && (option = getopt_long(argc, argv, "hxbf:i:q:", all, NULL)) != -1)
		status = readOption(option, options);
	return status;
}

static const char *syndrome(unsigned number)
{
	const char *text = syndromeText(number);

	return text ? text : "unknown syndrome";
}

/* The function that explains numbers of a kind; NULL: the kind is unknown. */
static const char *(*wordsOf(const char *kind))(unsigned)
{
	if (!strcmp(kind, "syndrome"))
		return syndrome;
	if (!strcmp(kind, "status"))
		return commandStatusText;
	if (!strcmp(kind, "event"))
		return verbsEventText;
	if (!strcmp(kind, "device-event"))
		return deviceEventText;
	return NULL;
}

static int explain(const char *(*words)(unsigned), char **numbers)
{
	if (!*numbers) {
		fputs("gin_mlx5dump: a number is missing\n", stderr);
		return 2;
	}
	for (; *numbers; numbers++) {
		long value = number(*numbers);
		if (value < 0)
			return 2;
		printf("0x%02lx: %s\n", value, words((unsigned)value));
	}
	return 0;
}

static int printQueue(const char *kind, const char *file, const struct dumpOptions *options)
{
	struct dump dump = {0};
	size_t malformed;

	if (dumpRead(file, options->format, &dump))
		return 2;
	if (!strcmp(kind, "sq"))
		malformed = printSendQueue(&dump, &options->expected);
	else
		malformed = printCompletionQueue(&dump);
	free(dump.bytes);
	return malformed != 0;
}

static int wrongUsage(const char *word, const char *what)
{
	fprintf(stderr, "gin_mlx5dump: %s %s\n%s", word, what, usage);
	return 2;
}

int main(int argc, char **argv)
{
	static const char unknownKind[] =
		"is none of sq, cq, syndrome, status, event and device-event";
	struct dumpOptions options = {formatGuess, {-1, -1, -1}};
	int status = readOptions(argc, argv, &options);

	if (status >= 0)
		return status;
	const char *kind = optind < argc ? argv[optind] : "";
	const char *(*words)(unsigned) = wordsOf(kind);
	if (words)
		return explain(words, argv + optind + 1);
	if (strcmp(kind, "sq") && strcmp(kind, "cq"))
		return wrongUsage(*kind ? kind : "an argument", *kind ? unknownKind : "is missing");
	if (argc > optind + 2)
		return wrongUsage(argv[optind + 2], "follows the file: give one file");
	return printQueue(kind, argc > optind + 1 ? argv[optind + 1] : "-", &options);
}
