/* SPDX-License-Identifier: BSD-3-Clause */
/* tree.c - writes, reads and compares trees of facts */
#include "gin_info.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void nodeStart(FILE *t, enum nodeKind kind, const char *label, const char *key)
{
	fprintf(t, "%c%s%c%s%c", kind, label, 0, key, 0);
}

void nodeEnd(FILE *t)
{
	fputc(0, t);
}

void add(FILE *t, enum nodeKind kind, const char *label, const char *key, const char *format, ...)
{
	va_list args;

	nodeStart(t, kind, label, key);
	va_start(args, format);
	vfprintf(t, format, args);
	va_end(args);
	nodeEnd(t);
}

void addString(FILE *t, const char *label, const char *key, const char *value)
{
	add(t, nodeString, label, key, "%s", value);
}

void addOptional(FILE *t, const char *label, const char *key, const char *value)
{
	add(t, nodeOptional, label, key, "%s", value);
}

void addLine(FILE *t, const char *label, const char *format, ...)
{
	va_list args;

	nodeStart(t, nodeLine, label, "");
	va_start(args, format);
	vfprintf(t, format, args);
	va_end(args);
	nodeEnd(t);
}

void addNumber(FILE *t, const char *key, int isKnown, uint64_t value)
{
	add(t, nodeLiteral, "", key, isKnown ? "%llu" : "null", (unsigned long long)value);
}

void addFlag(FILE *t, const char *key, int value)
{
	add(t, nodeLiteral, "", key, "%s", value ? "true" : "false");
}

void bracket(FILE *t, enum nodeKind kind, const char *key)
{
	add(t, kind, "", key, "%s", "");
}

const char *nodeRead(const char *at, struct node *node)
{
	if (!*at)
		return NULL;
	node->kind = (enum nodeKind) * at;
	node->label = at + 1;
	node->key = node->label + strlen(node->label) + 1;
	node->value = node->key + strlen(node->key) + 1;
	return node->value + strlen(node->value) + 1;
}

const char *nodeFind(const char *section, const char *name)
{
	struct node node;

	while ((section = nodeRead(section, &node)))
		if (!strcmp(node.label, name) || !strcmp(node.key, name))
			return node.value;
	return "";
}

int nodesEqual(const char *a, const char *b)
{
	struct node x = {0}, y;
	int differ = 0;

	while (*a && *b && !differ) {
		int isChanging = x.kind == nodeChanging;
		a = nodeRead(a, &x);
		b = nodeRead(b, &y);
		differ = x.kind != y.kind || strcmp(x.label, y.label) || strcmp(x.key, y.key) ||
			 (!isChanging && strcmp(x.value, y.value));
	}
	return !differ && !*a && !*b;
}

const char *nodesEnd(const char *at)
{
	struct node node;

	for (const char *next = at; next; next = nodeRead(at, &node))
		at = next;
	return at;
}

void treeOpen(struct tree *tree)
{
	tree->out = open_memstream(&tree->bytes, &tree->size);
	if (tree->out)
		return;
	fprintf(stderr, "gin_info: no memory\n");
	exit(1);
}

void treeMove(struct tree *from, FILE *t)
{
	fclose(from->out);
	fwrite(from->bytes, 1, from->size, t);
	free(from->bytes);
}

void treePrint(struct tree *tree, int asJson)
{
	nodeEnd(tree->out);
	fclose(tree->out);
	(asJson ? printJson : printText)(tree->bytes);
	fflush(stdout);
	free(tree->bytes);
	treeOpen(tree);
}

void treeFree(struct tree *tree)
{
	fclose(tree->out);
	free(tree->bytes);
}
