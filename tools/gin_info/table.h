/* SPDX-License-Identifier: BSD-3-Clause */
/* table.h - words and cells in columns, on standard output */
#ifndef GIN_TOOLS_GIN_INFO_TABLE_H
#define GIN_TOOLS_GIN_INFO_TABLE_H

enum { COLUMNS = 8 };

extern int margin; /* blanks in front of what is printed now */

/* Prints words from `column` on, where the cursor is; further lines begin there, too. */
void wrap(int column, const char *text);

/* A label and words beside it. */
void item(const char *label, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Rows of cells, printed when all are known, as wide as these need; the last cell of a row is
 * wrapped. Printing frees it.
 */
struct table {
	int columns, rows, room;
	char *(*row)[COLUMNS];
};

void tableAdd(struct table *t, const char *const *cells);
void tablePrint(struct table *t);

#endif
