/* SPDX-License-Identifier: BSD-3-Clause */
/* table.h - prints labelled text and tables on standard output, wrapped at 100 columns */
#ifndef GIN_TOOLS_GIN_INFO_TABLE_H
#define GIN_TOOLS_GIN_INFO_TABLE_H

enum { COLUMNS = 8 };

extern int margin; /* indentation of what is printed next, in blanks */

/* Prints text from the current position, which is `column`. Further lines start at `column` too. */
void wrap(int column, const char *text);

/* Prints a label and, beside it, wrapped text. */
void item(const char *label, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * A table. Columns are as wide as their cells need. The last cell of a row is wrapped.
 * tablePrint() prints the table and frees its rows.
 */
struct textTable {
	int columns, rows, room;
	char *(*row)[COLUMNS];
};

void tableAdd(struct textTable *t, const char *const *cells);
void tablePrint(struct textTable *t);

#endif
