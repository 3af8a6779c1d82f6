/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * topology.c - facts about CPUs, GPUs and NICs, and the PCI distances between them
 *
 * libgin lists the GPUs, sysfs the NICs, and hwloc knows where they are connected. What one of the
 * three does not know is reported as unknown.
 */
#include "gin_info.h"

#include "lib/gpu/hwloc_load.h"

#include <dirent.h>
#include <hwloc.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* hwloc reads the machine below HWLOC_FSROOT; tests set it. */
const char *factsRoot(void)
{
	const char *fsroot = getenv("HWLOC_FSROOT");

	return fsroot ? fsroot : "";
}

/* Makes a path below /sys. RDMA devices are below SYSFS_PATH if it is set, as for libibverbs. */
static void sysfsPath(char *out, size_t bytes, const char *format, va_list args)
{
	const char *other = getenv("SYSFS_PATH"), *rdma = "class/infiniband";
	char below[300];

	vsnprintf(below, sizeof(below), format, args);
	if (other && *other && !strncmp(below, rdma, strlen(rdma)))
		snprintf(out, bytes, "%s/%s", other, below);
	else
		snprintf(out, bytes, "%s/sys/%s", factsRoot(), below);
}

/* Reads the first line of a file; "" when that fails. Fills the rest of `out` with 0. */
__attribute__((format(printf, 3, 4))) static void readSysfs(char *out, size_t bytes,
							    const char *format, ...)
{
	char path[512];
	va_list args;

	va_start(args, format);
	sysfsPath(path, sizeof(path), format, args);
	va_end(args);
	memset(out, 0, bytes);
	FILE *file = fopen(path, "re");
	if (!file)
		return;
	if (fgets(out, (int)bytes, file))
		memset(out + strcspn(out, "\n"), 0, bytes - strcspn(out, "\n"));
	fclose(file);
}

static int countOf(hwloc_topology_t topology, hwloc_obj_type_t type)
{
	int count = hwloc_get_nbobjs_by_type(topology, type);

	return count > 0 ? count : 0;
}

static void fillCpus(hwloc_topology_t topology, struct systemFacts *s)
{
	s->cores = countOf(topology, HWLOC_OBJ_CORE);
	s->cpus = countOf(topology, HWLOC_OBJ_PU);
	s->numaNodes = countOf(topology, HWLOC_OBJ_NUMANODE);
	/* hwloc's sum over NUMA nodes may lack memory that was added to a running machine. */
	s->memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* The smallest object with CPUs (a NUMA node, say) to which the device is connected. */
static hwloc_obj_t cpusOf(hwloc_topology_t topology, hwloc_obj_t device)
{
	return device ? hwloc_get_non_io_ancestor_obj(topology, device) : NULL;
}

/* Returns `otherwise` when several NUMA nodes are local, or hwloc does not know the device. */
static int numaOf(hwloc_topology_t topology, hwloc_obj_t device, int otherwise)
{
	hwloc_obj_t cpus = cpusOf(topology, device);

	if (!cpus || !cpus->nodeset || hwloc_bitmap_weight(cpus->nodeset) != 1)
		return otherwise;
	return hwloc_bitmap_first(cpus->nodeset);
}

static int ancestorOf(hwloc_obj_t above, hwloc_obj_t below)
{
	while (below && below != above)
		below = below->parent;
	return below != NULL;
}

static hwloc_obj_t commonAncestor(hwloc_obj_t a, hwloc_obj_t b)
{
	while (a && !ancestorOf(a, b))
		a = a->parent;
	return a;
}

static enum gpuDistance distanceOf(hwloc_obj_t a, int nodeA, hwloc_obj_t b, int nodeB)
{
	hwloc_obj_t both = a && b ? commonAncestor(a, b) : NULL;

	if (both && both->type == HWLOC_OBJ_BRIDGE &&
	    both->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI)
		return distanceSwitch;
	if (nodeA < 0 || nodeB < 0)
		return distanceUnknown;
	return nodeA == nodeB ? distanceNuma : distanceOther;
}

const char *distanceWords(enum gpuDistance distance)
{
	static const char *const words[] = {"not known", "same switch", "same NUMA node", "other"};

	return words[distance];
}

static hwloc_obj_t gpuObject(hwloc_topology_t topology, const struct gpuFacts *g)
{
	return topology ? hwloc_get_pcidev_by_busidstring(topology, g->bus) : NULL;
}

static void locateGpu(hwloc_topology_t topology, struct gpuFacts *g)
{
	hwloc_obj_t device = gpuObject(topology, g), cpus = cpusOf(topology, device);

	g->numaNode = numaOf(topology, device, g->numaNode);
	if (cpus && cpus->cpuset)
		hwloc_bitmap_list_snprintf(g->cpus, sizeof(g->cpus), cpus->cpuset);
}

static void fillGpu(struct gpuFacts *g, const ginDeviceInfo_t *info)
{
	g->usable = info->usable;
	g->domain = info->domain;
	g->numaNode = info->numaNode;
	g->major = info->computeMajor;
	g->minor = info->computeMinor;
	g->memory = info->memoryBytes;
	snprintf(g->name, sizeof(g->name), "%s", info->name);
	snprintf(g->bus, sizeof(g->bus), "%s", info->pciBusId);
	snprintf(g->why, sizeof(g->why), "%s", info->why);
}

static void fillGpus(hwloc_topology_t topology, struct gpuList *g)
{
	ginDeviceInfo_t info = GIN_DEVICE_INFO_INIT;

	for (int i = 0; i == 0 || (i < g->count && i < GPUS_MOST); i++) {
		if (ginDeviceQuery(i, &info) != ginSuccess) {
			snprintf(g->why, sizeof(g->why), "%.150s", ginGetLastError());
			return;
		}
		g->count = info.count;
		g->driver = info.driverVersion;
		if (!g->count) {
			snprintf(g->why, sizeof(g->why), "%s", info.why);
			continue;
		}
		fillGpu(&g->gpu[i], &info);
		locateGpu(topology, &g->gpu[i]);
	}
	readSysfs(g->module, sizeof(g->module), "module/nvidia/version");
}

static hwloc_obj_t nicObject(hwloc_topology_t topology, const char *name)
{
	hwloc_obj_t device = NULL;

	while (topology && (device = hwloc_get_next_osdev(topology, device)))
		if (!strcmp(device->name, name))
			return device;
	return NULL;
}

static void locateNic(hwloc_topology_t topology, const char *class, const struct gpuList *gpus,
		      struct nicFacts *n)
{
	hwloc_obj_t device = nicObject(topology, n->name);
	char node[16];

	readSysfs(node, sizeof(node), "class/%s/%s/device/numa_node", class, n->name);
	n->numaNode = numaOf(topology, device, *node ? atoi(node) : -1);
	for (int g = 0; g < gpus->count && g < GPUS_MOST; g++)
		n->distance[g] =
			(uint8_t)distanceOf(device, n->numaNode, gpuObject(topology, &gpus->gpu[g]),
					    gpus->gpu[g].numaNode);
}

/* "4: ACTIVE" becomes "ACTIVE". */
static void dropNumber(char *state, size_t bytes)
{
	char *words = strstr(state, ": ");

	if (!words)
		return;
	size_t length = strlen(words + 2);
	memmove(state, words + 2, length);
	memset(state + length, 0, bytes - length);
}

static void fillPort(struct nicFacts *n)
{
	char folder[64];

	snprintf(folder, sizeof(folder), "class/infiniband/%s/ports/%d", n->name, n->port);
	readSysfs(n->state, sizeof(n->state), "%s/state", folder);
	readSysfs(n->link, sizeof(n->link), "%s/link_layer", folder);
	readSysfs(n->rate, sizeof(n->rate), "%s/rate", folder);
	dropNumber(n->state, sizeof(n->state));
}

static void fillInterface(struct nicFacts *n)
{
	char text[32];

	readSysfs(n->state, sizeof(n->state), "class/net/%s/operstate", n->name);
	readSysfs(text, sizeof(text), "class/net/%s/type", n->name);
	snprintf(n->link, sizeof(n->link), "%s",
		 atoi(text) == 1    ? "Ethernet"
		 : atoi(text) == 32 ? "InfiniBand"
				    : "");
	readSysfs(text, sizeof(text), "class/net/%s/speed", n->name);
	if (atoi(text) > 0)
		snprintf(n->rate, sizeof(n->rate), "%g Gb/sec", atoi(text) / 1000.0);
}

/* Lists a folder by name; -1 when there is no such folder. */
__attribute__((format(printf, 2, 3))) static int listSysfs(struct dirent ***entries,
							   const char *format, ...)
{
	char path[512];
	va_list args;

	va_start(args, format);
	sysfsPath(path, sizeof(path), format, args);
	va_end(args);
	return scandir(path, entries, NULL, alphasort);
}

static struct nicFacts *addNic(struct nicList *nics, const char *name)
{
	struct nicFacts *n = &nics->nic[nics->count++];

	snprintf(n->name, sizeof(n->name), "%.*s", (int)sizeof(n->name) - 1, name);
	return n;
}

static void addPorts(hwloc_topology_t topology, const char *name, struct facts *f)
{
	struct dirent **ports;
	int count = listSysfs(&ports, "class/infiniband/%s/ports", name);

	for (int i = 0; i < count; i++) {
		if (ports[i]->d_name[0] != '.' && f->nics.count < NICS_MOST) {
			struct nicFacts *n = addNic(&f->nics, name);
			n->rdma = 1;
			n->port = atoi(ports[i]->d_name);
			fillPort(n);
			locateNic(topology, "infiniband", &f->gpus, n);
			f->nics.rdma++;
		}
		free(ports[i]);
	}
	if (count >= 0)
		free(ports);
}

/* Leaves out the loopback interface, and virtual interfaces that are down. */
static int interesting(const char *name)
{
	char type[16], state[16], hardware[16];

	readSysfs(type, sizeof(type), "class/net/%s/type", name);
	readSysfs(state, sizeof(state), "class/net/%s/operstate", name);
	readSysfs(hardware, sizeof(hardware), "class/net/%s/device/uevent", name);
	return *type && atoi(type) != 772 && (*hardware || !strcmp(state, "up"));
}

static void addInterface(hwloc_topology_t topology, const char *name, struct facts *f)
{
	if (!interesting(name) || f->nics.count == NICS_MOST)
		return;
	struct nicFacts *n = addNic(&f->nics, name);
	fillInterface(n);
	locateNic(topology, "net", &f->gpus, n);
}

/* Calls `add` for each device of the class. Returns -1 when the class does not exist. */
static int addClass(hwloc_topology_t topology, const char *class, struct facts *f,
		    void (*add)(hwloc_topology_t topology, const char *name, struct facts *f))
{
	struct dirent **entries;
	int count = listSysfs(&entries, "class/%s", class);

	for (int i = 0; i < count; i++) {
		if (entries[i]->d_name[0] != '.')
			add(topology, entries[i]->d_name, f);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	return count;
}

void factsTopology(struct facts *f)
{
	hwloc_topology_t topology = hwlocLoad(1);

	if (topology)
		fillCpus(topology, &f->system);
	fillGpus(topology, &f->gpus);
	int found = addClass(topology, "infiniband", f, addPorts);
	if (!f->nics.rdma)
		snprintf(f->nics.why, sizeof(f->nics.why), "%s",
			 found < 0 ? "the kernel has no RDMA devices (/sys/class/infiniband)"
				   : "/sys/class/infiniband lists no port");
	addClass(topology, "net", f, addInterface);
	factsGdaki(f);
	if (topology)
		hwloc_topology_destroy(topology);
}
