/* SPDX-License-Identifier: BSD-3-Clause */
/* text.c - prints trees as text on standard output, wrapped at 100 columns */
#include "gin_info.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 100, LABEL = 14, CELL_MOST = 32, COLUMNS = 8 };

static int margin; /* indentation of the next line, in blanks */

/* Prints ? for control characters: a variable's value could contain terminal commands. */
static void putPlain(const char *text, int length)
{
	for (int i = 0; i < length; i++)
		putchar(isprint((unsigned char)text[i]) ? text[i] : '?');
}

/* Prints text from the current position, which is `column`. Further lines start at `column` too. */
static void wrap(int column, const char *text)
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

/* Prints a label and, next to it, wrapped text. */
static void item(const char *label, const char *words)
{
	printf("%*s%-*s", margin, "", LABEL, label);
	wrap(margin + LABEL, *words ? words : "-");
}

/* A row of a table: nodes that have labels, which are the headings of their columns. */
struct row {
	int cells;
	const char *label[COLUMNS], *value[COLUMNS];
};

/* Reads a row, up to where the first label comes again. After the last row there are no cells. */
static const char *readRow(const char *at, struct row *row)
{
	struct node node;
	const char *next;

	row->cells = 0;
	for (; (next = nodeRead(at, &node)) && node.kind != nodeTableEnd; at = next) {
		if (!*node.label)
			continue;
		if (row->cells == COLUMNS || (row->cells && !strcmp(node.label, row->label[0])))
			break;
		row->label[row->cells] = node.label;
		row->value[row->cells++] = *node.value ? node.value : "-";
	}
	return at;
}

static void widen(int *width, const char *cell)
{
	size_t length = strlen(cell);

	if (length > (size_t)*width && length <= CELL_MOST)
		*width = (int)length;
}

/* A cell that is wider than its column ends the line; the next cells continue on a new line. */
static void printRow(const char *const *cells, int count, const int *width)
{
	int column = margin;

	printf("%*s", margin, "");
	for (int c = 0; c < count; c++) {
		int length = (int)strlen(cells[c]), next = column + width[c] + 2;
		int endsLine = c + 1 == count || length > width[c];
		if (endsLine)
			wrap(column, cells[c]);
		else
			putPlain(cells[c], length);
		if (c + 1 < count)
			printf("%*s", endsLine ? next : next - column - length, "");
		column = next;
	}
}

/* Prints a table. The labels of the first row are its heading; columns are as wide as needed. */
static const char *printTable(const char *first)
{
	struct row row;
	int width[COLUMNS] = {0}, rows = 0;
	const char *at = readRow(first, &row);

	for (; row.cells; at = readRow(at, &row))
		for (int c = 0; c < row.cells; c++) {
			widen(&width[c], row.label[c]);
			widen(&width[c], row.value[c]);
		}
	for (at = readRow(first, &row); row.cells; at = readRow(at, &row)) {
		if (!rows++)
			printRow(row.label, row.cells, width);
		printRow(row.value, row.cells, width);
	}
	return at;
}

void printText(const char *at)
{
	struct node node;

	while ((at = nodeRead(at, &node))) {
		if (node.kind == nodeTable) {
			at = printTable(at);
		} else if (node.kind == nodeRaw) {
			fputs(node.value, stdout);
		} else if (node.kind == nodeHeading) {
			printf("%s\n", node.value);
			margin = 2;
		} else if (node.kind == nodeGroup) {
			printf("  ");
			wrap(2, node.value);
			margin = 4;
		} else if (*node.label) {
			item(node.label, node.value);
		}
	}
}
