/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * read.c - reads the bytes of a queue from a file: binary, or hex digits as xxd, hexdump, dmesg and
 * gdb print them
 */
#include "gin_mlx5dump.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns 0, or -1 when there is no memory. */
static int append(struct dump *d, const void *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		/* Whenever the count is a power of two, the buffer is full: double it. */
		if ((d->count & (d->count - 1)) == 0) {
			uint8_t *more = realloc(d->bytes, d->count ? 2 * d->count : 1);
			if (!more)
				return -1;
			d->bytes = more;
		}
		d->bytes[d->count++] = ((const uint8_t *)bytes)[i];
	}
	return 0;
}

static int readAll(FILE *in, struct dump *d)
{
	uint8_t piece[4096];
	size_t count;

	while ((count = fread(piece, 1, sizeof(piece), in)) > 0) {
		if (append(d, piece, count))
			return -1;
	}
	return ferror(in) ? -1 : 0;
}

static int isText(const struct dump *d)
{
	for (size_t i = 0; i < d->count; i++) {
		if (!isprint(d->bytes[i]) && !isspace(d->bytes[i]))
			return 0;
	}
	return 1;
}

/*
 * Returns the text after an offset and its colon: "0040:" or "0x7f00 <ring+64>:". NULL when the
 * line has no offset.
 */
static char *afterOffset(char *line)
{
	for (char *colon = strchr(line, ':'); colon; colon = strchr(colon + 1, ':')) {
		char *end = colon, *begin;
		if (end > line && end[-1] == '>') {
			while (end > line && *end != '<')
				end--;
			while (end > line && end[-1] == ' ')
				end--;
		}
		begin = end;
		while (begin > line && isxdigit((unsigned char)begin[-1]))
			begin--;
		if (end - begin >= 4)
			return colon + 1;
	}
	return NULL;
}

/* Cuts the column that shows the bytes as characters; two blanks separate it. */
static void cutCharacters(char *hex)
{
	hex += strspn(hex, " \t");
	char *blanks = strstr(hex, "  ");
	if (blanks)
		*blanks = '\0';
}

static int isPair(const char *at)
{
	return isxdigit((unsigned char)at[0]) && isxdigit((unsigned char)at[1]);
}

/*
 * Reads pairs of hex digits, which may have blanks or commas between them and 0x before each pair.
 * Returns NULL, or where it could not go on.
 */
static const char *pairsRead(const char *at, struct dump *out)
{
	while (*at) {
		unsigned byte;
		if (isspace((unsigned char)*at) || *at == ',') {
			at++;
			continue;
		}
		if (at[0] == '0' && (at[1] == 'x' || at[1] == 'X') && isPair(at + 2) &&
		    !isxdigit((unsigned char)at[4]))
			at += 2;
		if (!isPair(at))
			return at;
		if (sscanf(at, "%2x", &byte) != 1 || append(out, &(uint8_t){(uint8_t)byte}, 1))
			return at;
		at += 2;
	}
	return NULL;
}

static int lineRead(char *line, long number, const char *file, struct dump *out)
{
	char *hex = afterOffset(line);

	if (hex)
		cutCharacters(hex);
	else
		hex = line;
	hex[strcspn(hex, "#")] = '\0';
	const char *bad = pairsRead(hex, out);
	if (!bad)
		return 0;
	fprintf(stderr, "gin_mlx5dump: %s, line %ld: \"%.20s\" is not pairs of hex digits\n", file,
		number, bad);
	return -1;
}

/* Replaces the hex digits in `d` by the bytes that they mean. */
static int hexRead(struct dump *d, const char *file)
{
	struct dump out = {0};
	long number = 1;
	char *line, *rest;
	int failed = append(d, "", 1);

	rest = (char *)d->bytes;
	while (!failed && (line = strsep(&rest, "\n")))
		failed = lineRead(line, number++, file, &out);
	free(d->bytes);
	*d = out;
	return failed;
}

int dumpRead(const char *file, enum dumpFormat format, struct dump *dump)
{
	FILE *in = strcmp(file, "-") ? fopen(file, "rb") : stdin;
	struct dump d = {0};
	int failed = 0;

	if (!in || readAll(in, &d)) {
		fprintf(stderr, "gin_mlx5dump: %s: %s\n", file, strerror(errno));
		failed = -1;
	}
	if (in && in != stdin)
		fclose(in);
	if (!failed && (format == formatHex || (format == formatGuess && isText(&d))))
		failed = hexRead(&d, file);
	if (!failed && d.count == 0) {
		fprintf(stderr, "gin_mlx5dump: %s is empty\n", file);
		failed = -1;
	}
	if (failed)
		free(d.bytes);
	else
		*dump = d;
	return failed;
}
