/* SPDX-License-Identifier: BSD-3-Clause */
/* table.c - prints labelled text and tables on standard output, wrapped at 100 columns */
#include "table.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 100, LABEL = 14, CELL_MOST = 32 };

int margin;

/* Prints ? for control characters: a variable's value could contain terminal commands. */
static void putPlain(const char *text, int length)
{
	for (int i = 0; i < length; i++)
		putchar(isprint((unsigned char)text[i]) ? text[i] : '?');
}

void wrap(int column, const char *text)
{
	int at = column;

	while (*text) {
		int length = (int)strcspn(text, " ");
		if (at > column && at + 1 + length > WIDTH) {
			printf("\n%*s", column, "");
			at = column;
		} else if (at > column) {
			putchar(' ');
			at++;
		}
		putPlain(text, length);
		at += length;
		text += length;
		text += strspn(text, " ");
	}
	putchar('\n');
}

void item(const char *label, const char *format, ...)
{
	char *words = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&words, format, args) < 0)
		words = NULL;
	va_end(args);
	printf("%*s%-*s", margin, "", LABEL, label);
	wrap(margin + LABEL, words && *words ? words : "-");
	free(words);
}

void tableAdd(struct textTable *t, const char *const *cells)
{
	if (t->rows == t->room) {
		int room = t->room ? 2 * t->room : 16;
		void *more = realloc(t->row, (size_t)room * sizeof(*t->row));
		if (!more)
			return;
		t->row = more;
		t->room = room;
	}
	for (int c = 0; c < t->columns; c++)
		t->row[t->rows][c] = strdup(cells[c]);
	t->rows++;
}

static int widthOf(const struct textTable *t, int column)
{
	size_t width = 1;

	for (int r = 0; r < t->rows; r++) {
		size_t length = t->row[r][column] ? strlen(t->row[r][column]) : 0;
		if (length > width && length <= CELL_MOST)
			width = length;
	}
	return (int)width;
}

/* Number of cells up to the last one that is not empty; at least 1. */
static int usedCells(const struct textTable *t, char **cells)
{
	int used = t->columns;

	while (used > 1 && (!cells[used - 1] || !*cells[used - 1]))
		used--;
	return used;
}

/* A cell that is wider than its column ends the line; the next cells continue on a new line. */
static void printRow(const struct textTable *t, char **cells, const int *width)
{
	int column = margin, used = usedCells(t, cells);

	printf("%*s", margin, "");
	for (int c = 0; c < used; c++) {
		const char *cell = cells[c] ? cells[c] : "";
		int length = (int)strlen(cell), next = column + width[c] + 2;
		int endsLine = c + 1 == used || length > width[c];
		if (endsLine)
			wrap(column, cell);
		else
			putPlain(cell, length);
		if (c + 1 < used)
			printf("%*s", endsLine ? next : next - column - length, "");
		column = next;
	}
}

void tablePrint(struct textTable *t)
{
	int width[COLUMNS];

	for (int c = 0; c < t->columns; c++)
		width[c] = widthOf(t, c);
	for (int r = 0; r < t->rows; r++) {
		printRow(t, t->row[r], width);
		for (int c = 0; c < t->columns; c++)
			free(t->row[r][c]);
	}
	free(t->row);
	t->row = NULL;
}
