/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * topology.c - facts about CPUs, GPUs and NICs, and the PCI distances between them
 *
 * libgin lists the GPUs, sysfs the NICs, and hwloc knows where they are connected. What one of the
 * three does not know is reported as unknown. ginNicQuery() tells whether GPU threads can post to a
 * port. For the GPU, the NVIDIA driver's files in /proc and /sys are hints: ginCommInit() tries the
 * GPU for real, and only when a pair of ranks needs gdaki.
 */
#include "gin_info.h"

#include "lib/gpu/hwloc_load.h"

#include <glob.h>
#include <hwloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GPUS_MOST = 16, PORTS_MOST = 32 };

struct place {
	hwloc_obj_t device; /* NULL: hwloc does not know the device */
	int numaNode;	    /* -1: unknown */
};

struct machine {
	hwloc_topology_t topology; /* NULL: hwloc has failed */
	int gpus;		   /* at most GPUS_MOST */
	struct place gpu[GPUS_MOST];
};

/* hwloc reads the machine below HWLOC_FSROOT; tests set it. */
static const char *factsRoot(void)
{
	const char *fsroot = getenv("HWLOC_FSROOT");

	return fsroot ? fsroot : "";
}

/* Reads the first line of a file; "" when that fails. */
static const char *readFile(const char *folder, const char *file, char *out, size_t bytes)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", folder, file);
	FILE *in = fopen(path, "re");
	if (!in || !fgets(out, (int)bytes, in))
		out[0] = '\0';
	out[strcspn(out, "\n")] = '\0';
	if (in)
		fclose(in);
	return out;
}

/* 0: unknown. */
static int countOf(hwloc_topology_t topology, hwloc_obj_type_t type)
{
	int count = topology ? hwloc_get_nbobjs_by_type(topology, type) : 0;

	return count > 0 ? count : 0;
}

/* The smallest object with CPUs (a NUMA node, say) to which the device is connected. */
static hwloc_obj_t cpusOf(const struct machine *m, hwloc_obj_t device)
{
	return device ? hwloc_get_non_io_ancestor_obj(m->topology, device) : NULL;
}

/* `otherwise`: the NUMA node if hwloc does not know it, or several are local. */
static struct place placeOf(const struct machine *m, hwloc_obj_t device, int otherwise)
{
	struct place place = {device, otherwise};
	hwloc_obj_t cpus = cpusOf(m, device);

	if (cpus && cpus->nodeset && hwloc_bitmap_weight(cpus->nodeset) == 1)
		place.numaNode = hwloc_bitmap_first(cpus->nodeset);
	return place;
}

static int ancestorOf(hwloc_obj_t above, hwloc_obj_t below)
{
	while (below && below != above)
		below = below->parent;
	return below != NULL;
}

enum gpuDistance { distanceUnknown, distanceSwitch, distanceNuma, distanceOther };

static enum gpuDistance distanceOf(const struct place *a, const struct place *b)
{
	hwloc_obj_t both = b->device ? a->device : NULL;

	while (both && !ancestorOf(both, b->device))
		both = both->parent;
	if (both && both->type == HWLOC_OBJ_BRIDGE &&
	    both->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI)
		return distanceSwitch;
	if (a->numaNode < 0 || b->numaNode < 0)
		return distanceUnknown;
	return a->numaNode == b->numaNode ? distanceNuma : distanceOther;
}

static struct place placeOfGpu(const struct machine *m, const ginDeviceInfo_t *info)
{
	hwloc_obj_t device =
		m->topology ? hwloc_get_pcidev_by_busidstring(m->topology, info->pciBusId) : NULL;

	return placeOf(m, device, info->numaNode);
}

/* A row of the table of GPUs. */
static void gpuFacts(FILE *t, const struct machine *m, int ordinal, const ginDeviceInfo_t *info)
{
	const struct place *place = &m->gpu[ordinal];
	hwloc_obj_t near = cpusOf(m, place->device);
	char memory[32], cpus[48] = "";

	if (near && near->cpuset)
		hwloc_bitmap_list_snprintf(cpus, sizeof(cpus), near->cpuset);
	bracket(t, nodeObject, "");
	addLine(t, "GPU", "GPU %d", ordinal);
	addNumber(t, "ordinal", 1, (uint64_t)ordinal);
	addString(t, "name", "name", info->name);
	add(t, nodeString, "compute", "computeCapability", "%d.%d", info->computeMajor,
	    info->computeMinor);
	addLine(t, "memory", "%s", sizeText(info->memoryBytes, memory));
	addNumber(t, "memoryBytes", 1, info->memoryBytes);
	addString(t, "PCI bus id", "pciBusId", info->pciBusId);
	addLine(t, "NUMA", place->numaNode < 0 ? "-" : "%d", place->numaNode);
	addNumber(t, "numaNode", place->numaNode >= 0, (uint64_t)place->numaNode);
	addOptional(t, "CPUs", "cpus", cpus);
	addLine(t, "use", "%s", info->usable ? "usable" : info->why);
	addFlag(t, "usable", info->usable);
	addOptional(t, "", "why", info->why);
	addNumber(t, "domain", 1, (uint64_t)info->domain);
	bracket(t, nodeObjectEnd, "");
}

/* The GPUs that have native atomics between them. domain[i] is the lowest of these for GPU i. */
static void domainFacts(FILE *t, const int *domain, int count)
{
	uint8_t in[GPUS_MOST];
	char words[96];
	const char *label = "NVLink";

	for (int first = 0; first < count; first++) {
		int members = 0;
		for (int i = 0; i < count; i++)
			members += in[i] = domain[i] == first;
		if (members < 2)
			continue;
		addLine(t, label, "%s", listText("GPU", in, count, words, sizeof(words)));
		label = " ";
	}
	if (*label != ' ')
		addLine(t, label, "no two GPUs have peer access with native atomics");
}

static void gpuLines(FILE *t, int count, int shown, const int *domain, int version,
		     const char *module)
{
	if (count > shown)
		addLine(t, " ", "and %d more", count - shown);
	domainFacts(t, domain, shown);
	addLine(t, "driver", "CUDA %d.%d, kernel module %s", version / 1000, version % 1000 / 10,
		*module ? module : "unknown");
}

static void gpusFacts(FILE *t, struct machine *m)
{
	ginDeviceInfo_t info = GIN_DEVICE_INFO_INIT;
	const char *why = "";
	char folder[300], module[32];
	struct tree rows;
	int domain[GPUS_MOST];

	treeOpen(&rows);
	for (int i = 0; i == 0 || (i < info.count && i < GPUS_MOST); i++) {
		if (ginDeviceQuery(i, &info) != ginSuccess)
			why = ginGetLastError();
		else if (!info.count)
			why = info.why;
		if (*why || !info.count)
			break;
		m->gpus = i + 1;
		m->gpu[i] = placeOfGpu(m, &info);
		domain[i] = info.domain;
		gpuFacts(rows.out, m, i, &info);
	}
	snprintf(folder, sizeof(folder), "%s/sys/module/nvidia", factsRoot());
	readFile(folder, "version", module, sizeof(module));
	addNumber(t, "count", 1, (uint64_t)info.count);
	addOptional(t, *why ? "no GPU" : "", "why", why);
	addNumber(t, "cudaVersion", info.driverVersion, (uint64_t)info.driverVersion);
	addOptional(t, "", "kernelModule", module);
	bracket(t, nodeArray, "devices");
	bracket(t, nodeTable, "");
	treeMove(&rows, t);
	bracket(t, nodeTableEnd, "");
	bracket(t, nodeArrayEnd, "");
	if (m->gpus)
		gpuLines(t, info.count, m->gpus, domain, info.driverVersion, module);
	nodeEnd(t);
}

/* What is known about NICs while they are listed. */
struct nicList {
	const struct machine *machine;
	struct tree rows, lines; /* of the table; below the table */
	int rdma;		 /* ports of RDMA NICs */
	int ports;		 /* ports that libgin sees */
	ginNicInfo_t port[PORTS_MOST];
	char why[320]; /* why libgin sees no port */
};

/* A port of an RDMA NIC, or a network interface. */
struct nic {
	const char *folder, *name; /* in sysfs */
	int port;		   /* 0: a network interface */
	const char *state, *link, *rate;
};

static void queryPorts(struct nicList *nics)
{
	ginNicInfo_t info = GIN_NIC_INFO_INIT;

	for (int i = 0; i == 0 || (i < info.count && i < PORTS_MOST); i++) {
		if (ginNicQuery(i, &info) != ginSuccess)
			snprintf(nics->why, sizeof(nics->why), "%s", ginGetLastError());
		else if (!info.count)
			snprintf(nics->why, sizeof(nics->why), "%s", info.why);
		else
			nics->port[nics->ports++] = info;
		if (*nics->why)
			return;
	}
}

/* Whether GPU threads can post to the port. */
static void gdakiFacts(struct nicList *nics, const struct nic *n)
{
	static const ginNicInfo_t none = GIN_NIC_INFO_INIT;
	const ginNicInfo_t *info = &none;
	FILE *t = nics->rows.out;

	for (int i = 0; i < nics->ports; i++)
		if (nics->port[i].port == n->port && !strcmp(nics->port[i].name, n->name))
			info = &nics->port[i];
	if (*info->why) {
		addFlag(t, "gdaki", info->usable);
		addLine(nics->lines.out, "gdaki", "%s port %d: %s%s", n->name, n->port,
			info->usable ? "usable: " : "not usable: ", info->why);
	} else {
		addNumber(t, "gdaki", 0, 0);
	}
	addOptional(t, "", "gdakiWhy", info->why);
}

static const char *const distanceWords[] = {"not known", "same switch", "same NUMA node", "other"};

/* A line such as "same switch: GPUs 0-1; other: GPU 2", and an array. */
static void distanceFacts(FILE *t, const struct machine *m, const struct place *place)
{
	static const enum gpuDistance kinds[] = {distanceSwitch, distanceNuma, distanceOther,
						 distanceUnknown};
	char words[256] = "", list[64];
	size_t used = 0;

	for (int k = 0; k < 4 && used < sizeof(words); k++) {
		uint8_t in[GPUS_MOST];
		int members = 0;
		for (int g = 0; g < m->gpus; g++)
			members += in[g] = distanceOf(place, &m->gpu[g]) == kinds[k];
		if (members)
			used += (size_t)snprintf(words + used, sizeof(words) - used, "%s%s: %s",
						 used ? "; " : "", distanceWords[kinds[k]],
						 listText("GPU", in, m->gpus, list, sizeof(list)));
	}
	if (m->gpus)
		addLine(t, "distance to GPUs", "%s", words);
	bracket(t, nodeArray, "gpus");
	for (int g = 0; g < m->gpus; g++)
		addString(t, "", "", distanceWords[distanceOf(place, &m->gpu[g])]);
	bracket(t, nodeArrayEnd, "");
}

static struct place placeOfNic(const struct machine *m, const struct nic *n)
{
	hwloc_obj_t device = NULL;
	char node[16];

	readFile(n->folder, "device/numa_node", node, sizeof(node));
	while (m->topology && (device = hwloc_get_next_osdev(m->topology, device)))
		if (!strcmp(device->name, n->name))
			break;
	return placeOf(m, device, *node ? atoi(node) : -1);
}

/* Adds a row to the table. */
static void addNic(struct nicList *nics, const struct nic *n)
{
	FILE *t = nics->rows.out;
	struct place place = placeOfNic(nics->machine, n);

	bracket(t, nodeObject, "");
	addLine(t, "device", n->port ? "%s port %d" : "%s", n->name, n->port);
	addString(t, "", "name", n->name);
	addFlag(t, "rdma", n->port);
	addNumber(t, "port", n->port, (uint64_t)n->port);
	addOptional(t, "state", "state", n->state);
	addOptional(t, "link", "linkLayer", n->link);
	addOptional(t, "rate", "rate", n->rate);
	addLine(t, "NUMA", place.numaNode < 0 ? "-" : "%d", place.numaNode);
	addNumber(t, "numaNode", place.numaNode >= 0, (uint64_t)place.numaNode);
	gdakiFacts(nics, n);
	distanceFacts(t, nics->machine, &place);
	bracket(t, nodeObjectEnd, "");
}

/* `folder` is that of a port, such as /sys/class/infiniband/mlx5_0/ports/1. */
static void addPort(struct nicList *nics, const char *folder)
{
	const char *port = strrchr(folder, '/') + 1;
	char device[512], state[32], link[16], rate[32];

	snprintf(device, sizeof(device), "%.*s", (int)(port - folder - strlen("/ports/")), folder);
	readFile(folder, "state", state, sizeof(state));
	const char *words = strstr(state, ": "); /* of "4: ACTIVE" */
	struct nic n = {.folder = device,
			.name = strrchr(device, '/') + 1,
			.port = atoi(port),
			.state = words ? words + 2 : state,
			.link = readFile(folder, "link_layer", link, sizeof(link)),
			.rate = readFile(folder, "rate", rate, sizeof(rate))};
	nics->rdma++;
	addNic(nics, &n);
}

/* Leaves out the loopback interface, and virtual interfaces that are down. */
static void addInterface(struct nicList *nics, const char *folder)
{
	char state[16], type[16], speed[16], hardware[16], rate[32] = "";
	struct nic n = {.folder = folder, .name = strrchr(folder, '/') + 1, .rate = rate};
	int kind = atoi(readFile(folder, "type", type, sizeof(type)));

	n.state = readFile(folder, "operstate", state, sizeof(state));
	readFile(folder, "device/uevent", hardware, sizeof(hardware));
	if (!*type || kind == 772 || (!*hardware && strcmp(state, "up")))
		return;
	n.link = kind == 1 ? "Ethernet" : kind == 32 ? "InfiniBand" : "";
	int megabits = atoi(readFile(folder, "speed", speed, sizeof(speed)));
	if (megabits > 0)
		snprintf(rate, sizeof(rate), "%g Gb/sec", megabits / 1000.0);
	addNic(nics, &n);
}

/* Calls `each` for each folder that matches `class` and `pattern`. */
static void eachFolder(struct nicList *nics, const char *class, const char *pattern,
		       void (*each)(struct nicList *nics, const char *folder))
{
	char path[400];
	glob_t found;

	snprintf(path, sizeof(path), "%s/%s", class, pattern);
	if (glob(path, 0, NULL, &found))
		return;
	for (size_t i = 0; i < found.gl_pathc; i++)
		each(nics, found.gl_pathv[i]);
	globfree(&found);
}

/* Returns 1 when a line of the file contains the words. */
static int driverSays(const char *file, const char *words)
{
	char path[300], line[512];
	int found = 0;

	snprintf(path, sizeof(path), "%s/proc/driver/nvidia/%s", factsRoot(), file);
	FILE *in = fopen(path, "re");
	while (in && !found && fgets(line, sizeof(line), in))
		found = strstr(line, words) != NULL;
	if (in)
		fclose(in);
	return found;
}

static const char *gpuMemoryWords(void)
{
	char path[300];

	if (driverSays("version", "Open Kernel Module"))
		return "by dma-buf: the driver has open kernel modules";
	snprintf(path, sizeof(path), "%s/sys/module/nvidia_peermem", factsRoot());
	if (!access(path, F_OK))
		return "by nvidia-peermem, which is loaded";
	return "load nvidia-peermem, or install the driver's open kernel modules (for dma-buf): "
	       "NICs need one of the two";
}

static const char *doorbellWords(void)
{
	if (driverSays("params", "PeerMappingOverride=1"))
		return "GPUs may write them: PeerMappingOverride=1 is set";
	return "if ginCommInit() warns that a CPU thread rings them: load the driver with "
	       "NVreg_RegistryDwords=\"PeerMappingOverride=1;\"";
}

/* How NICs reach GPU memory and whether GPUs may write doorbells, by the driver's files. */
static void driverFacts(FILE *t, int hasBoth)
{
	addOptional(t, hasBoth ? "GPU memory" : "", "gpuMemory", hasBoth ? gpuMemoryWords() : "");
	addOptional(t, hasBoth ? "doorbells" : "", "doorbells", hasBoth ? doorbellWords() : "");
}

static void nicFacts(FILE *t, const struct machine *m)
{
	/* RDMA devices are below SYSFS_PATH if it is set, as for libibverbs. */
	const char *root = factsRoot(), *sysfs = getenv("SYSFS_PATH");
	struct nicList nics = {.machine = m};
	int hasSysfs = sysfs && *sysfs;
	char class[300], net[300];

	queryPorts(&nics);
	treeOpen(&nics.rows);
	treeOpen(&nics.lines);
	snprintf(class, sizeof(class), "%s%s/class/infiniband", hasSysfs ? sysfs : root,
		 hasSysfs ? "" : "/sys");
	snprintf(net, sizeof(net), "%s/sys/class/net", root);
	eachFolder(&nics, class, "*/ports/*", addPort);
	eachFolder(&nics, net, "*", addInterface);
	addOptional(t, nics.rdma ? "" : "no RDMA NIC:", "why",
		    nics.rdma		  ? ""
		    : access(class, F_OK) ? "the kernel has no RDMA devices (/sys/class/infiniband)"
					  : "/sys/class/infiniband lists no port");
	bracket(t, nodeArray, "ports");
	bracket(t, nodeTable, "");
	treeMove(&nics.rows, t);
	bracket(t, nodeTableEnd, "");
	bracket(t, nodeArrayEnd, "");
	if (nics.rdma && *nics.why)
		addLine(t, "gdaki", "libgin sees no port: %s", nics.why);
	addOptional(t, "", "gdakiWhy", nics.why);
	treeMove(&nics.lines, t);
	driverFacts(t, nics.rdma && m->gpus);
	nodeEnd(t);
}

void factsOfMachine(FILE *t)
{
	struct machine m = {.topology = hwlocLoad(1)};

	libginFacts(t);
	systemFacts(t, countOf(m.topology, HWLOC_OBJ_CORE), countOf(m.topology, HWLOC_OBJ_PU),
		    countOf(m.topology, HWLOC_OBJ_NUMANODE));
	gpusFacts(t, &m);
	nicFacts(t, &m);
	if (m.topology)
		hwloc_topology_destroy(m.topology);
}
