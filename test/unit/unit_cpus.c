/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_cpus.c - on which CPUs the proxy's threads run, on described machines
 *
 * hwloc describes two machines: HWLOC_SYNTHETIC has NUMA nodes and no devices, test/fake/sysfs has
 * devices.
 */
#include "expect.h"
#include "lib/gpu/cpus.h"

static const struct cuda *someCuda = (const struct cuda *)&someCuda; /* a GPU; nothing calls it */

static cpu_set_t setOf(const char *cpus)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (const char *at = cpus; *at; at++)
		CPU_SET(*at - '0', &set);
	return set;
}

static struct device gpu(const char *busId, int numaNode)
{
	struct device d = {.cuda = someCuda, .numaNode = numaNode};

	snprintf(d.pciBusId, sizeof(d.pciBusId), "%s", busId);
	return d;
}

/* Checks which of the CPUs `own` are chosen: `due`. `own` has a digit for each CPU. */
static void expectChosen(const struct device *d, const char *own, const char *due)
{
	const cpu_set_t mask = setOf(own);
	cpu_set_t cpus;
	char text[64];

	cpusChoose(d, &mask, &cpus);
	cpusFormat(&cpus, text, sizeof(text));
	EXPECT_TEXT(text, due);
}

static void synthetic(void)
{
	setenv("HWLOC_SYNTHETIC", "numa:2 core:2 pu:2", 1);
	struct device none = {.numaNode = -1}, first = gpu("0000:1b:00.0", 0);
	struct device second = gpu("", 1), lost = gpu("0000:1b:00.0", -1), far = gpu("", 7);

	expectChosen(&none, "01234567", "0-7");
	expectChosen(&first, "01234567", "0-3");
	expectChosen(&second, "01234567", "4-7");
	expectChosen(&second, "0167", "6-7");
	expectChosen(&second, "24", "4");
	expectChosen(&second, "013", "0-1,3"); /* none is near: all are chosen */
	expectChosen(&lost, "02", "0,2");
	expectChosen(&far, "01234567", "0-7");
	expectChosen(&second, "01234567", "4-7");
	expectChosen(&second, "0123", "0-3");
	setenv("HWLOC_SYNTHETIC", "numa:4 core:2 pu:1", 1); /* libgin remembers its NUMA node */
	expectChosen(&second, "01234567", "4-7");
	expectChosen(&first, "01234567", "0-1");
}

static void bySysfs(void)
{
	struct device first = gpu("0000:1B:00.0", -1), second = gpu("0000:1e:00.0", 0);

	expectChosen(&first, "0123", "0-1");
	expectChosen(&second, "0123", "2-3"); /* the bus id has priority over the NUMA node */
	expectChosen(&second, "12", "2");
	expectChosen(&second, "1", "1");
}

static void wantsNone(void)
{
	setenv("GIN_PROXY_AFFINITY", "none", 1);
	setenv("HWLOC_SYNTHETIC", "numa:2 core:2 pu:2", 1);
	struct device second = gpu("", 1);

	expectChosen(&second, "01234567", "0-7");
}

static void expectThread(const char *among, unsigned number, const char *due)
{
	const cpu_set_t set = setOf(among);
	cpu_set_t cpus;
	char text[64];

	cpusPick(&set, number, &cpus);
	cpusFormat(&cpus, text, sizeof(text));
	EXPECT_TEXT(text, due);
}

static void setForAll(void)
{
	expectThread("0134", 0, "0-1,3-4");
	expectThread("0134", 9, "0-1,3-4");
	expectThread("5", 1, "5");
}

static void oneEach(void)
{
	setenv("GIN_PROXY_AFFINITY", "cpu", 1);
	expectThread("0134", 0, "4");
	expectThread("0134", 1, "3");
	expectThread("0134", 2, "1");
	expectThread("0134", 3, "0");
	expectThread("0134", 4, "4");
	expectThread("0134", 0, "3"); /* CPU 4 has two threads */
	expectThread("0134", 2, "1");
	expectThread("0134", 2, "0");
	expectThread("5", 4000000000u, "5");
}

/*
 * A communicator ends, and its thread leaves CPU 3: the next thread takes it, whatever the thread's
 * number.
 */
static void oneLeaves(void)
{
	const cpu_set_t three = setOf("3"), none = setOf("");

	setenv("GIN_PROXY_AFFINITY", "cpu", 1);
	expectThread("0134", 0, "4");
	expectThread("0134", 1, "3");
	expectThread("0134", 2, "1");
	expectThread("0134", 3, "0");
	cpusLeave(&none);
	cpusLeave(&three);
	expectThread("0134", 0, "3");
	expectThread("0134", 0, "4");
}

static void lists(void)
{
	cpu_set_t set = setOf("");
	char text[64], little[8];

	cpusFormat(&set, text, sizeof(text));
	EXPECT_TEXT(text, "");
	CPU_SET(CPU_SETSIZE - 1, &set);
	CPU_SET(0, &set);
	cpusFormat(&set, text, sizeof(text));
	EXPECT_TEXT(text, "0,1023");
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu += 3)
		CPU_SET(cpu, &set);
	cpusFormat(&set, little, sizeof(little));
	EXPECT_TEXT(little, "0,3,6,9");
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		CPU_SET(cpu, &set);
	cpusFormat(&set, text, sizeof(text));
	EXPECT_TEXT(text, "0-1023");
}

/* Makes a description of the machine by test/fake/sysfs; 0: there is no python3. */
static int describe(char *root, const char *program)
{
	char command[8192];

	EXPECT(mkdtemp(root) != NULL);
	snprintf(command, sizeof(command), "python3 '%s' '%s' 2>/dev/null", program, root);
	return system(command) == 0;
}

static void removeTree(const char *root)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf '%s'", root);
	EXPECT_EQUAL(system(command), 0);
}

/* From the folder of the project, as all tests. */
static void testSysfs(void)
{
	char root[] = "/tmp/gin-place-XXXXXX";

	if (describe(root, "test/fake/sysfs")) {
		setenv("HWLOC_FSROOT", root, 1);
		expectChild("near to a GPU by its bus", bySysfs);
		unsetenv("HWLOC_FSROOT");
	} else {
		printf("left out: CPUs near to a GPU by its bus: there is no python3, or no "
		       "test/fake/sysfs here\n");
	}
	removeTree(root);
}

int main(void)
{
	const char *why = "";
	cpu_set_t cpus;

	expectChild("lists of CPUs", lists);
	expectChild("a set for all threads", setForAll);
	expectChild("a CPU for each thread", oneEach);
	expectChild("a thread ends, and its CPU is free", oneLeaves);
	expectChild("GIN_PROXY_AFFINITY=none", wantsNone);
	cpusNear("", -1, &cpus, &why);
	if (strstr(why, "without hwloc")) {
		printf("%s\n", why);
		return expectFailures ? 1 : 77;
	}
	expectChild("near to a GPU by its NUMA node", synthetic);
	testSysfs();
	return expectFailures != 0;
}
