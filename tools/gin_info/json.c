/* SPDX-License-Identifier: BSD-3-Clause */
/* json.c - prints trees as JSON; gin_info(1) describes the keys */
#include "gin_info.h"

#include <string.h>

static int depth; /* number of open objects and arrays */
static int used;  /* the innermost one has members */

static void quote(const char *text)
{
	putchar('"');
	for (const unsigned char *at = (const unsigned char *)text; *at; at++)
		if (*at == '"' || *at == '\\')
			printf("\\%c", *at);
		else if (*at < 0x20 || *at >= 0x7f) /* the encoding is unknown */
			printf("\\u%04x", *at);
		else
			putchar(*at);
	putchar('"');
}

/* Starts the document, a member of an object, or an element of an array, where `key` is "". */
static void begin(const char *key)
{
	if (depth)
		printf("%s\n%*s", used ? "," : "", 2 * depth, "");
	used = 1;
	if (*key) {
		quote(key);
		printf(": ");
	}
}

static void closeWith(char bracket)
{
	depth--;
	if (used)
		printf("\n%*s", 2 * depth, "");
	putchar(bracket);
	if (!depth)
		putchar('\n');
	used = 1;
}

static void printValue(const struct node *node)
{
	if (node->kind == nodeLiteral)
		fputs(node->value, stdout);
	else if (node->kind == nodeOptional && !*node->value)
		fputs("null", stdout);
	else
		quote(node->value);
}

void printJson(const char *at)
{
	struct node node;

	while ((at = nodeRead(at, &node))) {
		switch (node.kind) {
		case nodeString:
		case nodeOptional:
		case nodeLiteral:
			begin(node.key);
			printValue(&node);
			break;
		case nodeObject:
		case nodeArray:
			begin(node.key);
			putchar(node.kind);
			depth++;
			used = 0;
			break;
		case nodeObjectEnd:
		case nodeArrayEnd:
			closeWith((char)node.kind);
			break;
		default: /* for the text */
			break;
		}
	}
}
