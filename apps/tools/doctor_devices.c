/* doctor_devices - the network devices of this machine for carriers that drive a device themselves,
 * and what these devices lack.
 *
 * A device is really opened if that disturbs no other process; otherwise its state is read from the
 * kernel. Layer: apps. Threads: one. */
#include <dirent.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apps/tools/doctor.h"

enum { NET_ADMIN = 12, NET_RAW = 13, IPC_LOCK = 14, SYS_ADMIN = 21, BPF = 39 };
enum { DEVICES_MAX = 8 };

static uint64_t read_capabilities(void)
{
	char line[160];
	uint64_t set = 0;
	FILE *file = fopen("/proc/self/status", "re");

	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, "CapEff:", 7) == 0)
			set = strtoull(line + 7, NULL, 16);
	}
	if (file)
		fclose(file);
	return set;
}

static bool has_capability(uint64_t set, int capability)
{
	return set >> capability & 1;
}

static void check_rights(struct visit *v, uint64_t set)
{
	static const struct {
		int capability;
		const char *name;
	} wanted[] = {
	    {NET_RAW, "net_raw"}, {NET_ADMIN, "net_admin"}, {BPF, "bpf"}, {IPC_LOCK, "ipc_lock"}};
	struct finding *f = doctor_note(v, "network rights", true,
					"only for devices: run as root, or setcap cap_net_raw,"
					"cap_net_admin,cap_bpf,cap_ipc_lock+ep on the program");
	char have[64] = "", lack[64] = "";

	for (unsigned i = 0; i < 4; i++) {
		char *to = has_capability(set, wanted[i].capability) ? have : lack;

		strcat(strcat(to, " "), wanted[i].name);
	}
	f->ok = !lack[0];
	snprintf(f->found, sizeof(f->found), "capabilities:%s%s%s", have[0] ? have : " none",
		 lack[0] ? "; not" : "", lack);
}

static void locked_memory(struct visit *v, uint64_t set)
{
	enum { ENOUGH = 16 << 20 };
	struct finding *f =
	    doctor_note(v, "locked memory", true,
			"only for verbs and raw, 8 MiB an endpoint: ulimit -l unlimited");
	struct rlimit limit = {0};

	getrlimit(RLIMIT_MEMLOCK, &limit);
	f->ok = limit.rlim_cur >= ENOUGH || has_capability(set, IPC_LOCK);
	if (limit.rlim_cur == RLIM_INFINITY)
		snprintf(f->found, sizeof(f->found), "no limit");
	else
		snprintf(f->found, sizeof(f->found), "limit %llu KiB%s",
			 (unsigned long long)limit.rlim_cur >> 10,
			 has_capability(set, IPC_LOCK) ? ", which this process may pass" : "");
}

/* Checks the carriers over kernel sockets. AF_XDP is not tried: its program would take packets from
 * other processes that use the interface. */
static void software_devices(struct visit *v, uint64_t set)
{
	struct finding *f;
	bool rights = has_capability(set, NET_RAW) && has_capability(set, NET_ADMIN) &&
		      (has_capability(set, BPF) || has_capability(set, SYS_ADMIN));
	int fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (has_capability(set, NET_RAW))
		doctor_dpdk(v, "dpdk-af_packet", "dpdk:net_af_packet0@127.0.0.1:0",
			    "--no-huge -m 192 --no-pci --no-shconf --vdev=net_af_packet0,iface=lo",
			    "a kernel with CONFIG_PACKET; LEND_EAL_LOG=1 lend doctor shows more");
	else
		snprintf(doctor_note(v, "dpdk-af_packet", false, "the network rights above")->found,
			 sizeof(f->found), "not tried: packet sockets need net_raw");
	f = doctor_note(v, "dpdk-af_xdp", fd >= 0 && rights,
			fd >= 0 || !has_capability(set, NET_RAW)
			    ? "the network rights above"
			    : "a kernel with CONFIG_XDP_SOCKETS, 5.4 or later");
	snprintf(f->found, sizeof(f->found), "%s",
		 f->ok     ? "any interface: --vdev=net_af_xdp0,iface=DEV"
		 : fd >= 0 ? "the kernel has it; rights are missing"
			   : "no AF_XDP socket");
	if (fd >= 0)
		close(fd);
}

/* Copies the name of a PCI device's kernel driver; "" without one. */
static void driver_of(const char *address, char driver[64])
{
	char path[PATH_MAX], target[PATH_MAX];
	ssize_t n;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%.40s/driver", address);
	n = readlink(path, target, sizeof(target) - 1);
	target[n > 0 ? n : 0] = 0;
	snprintf(driver, 64, "%.63s", n > 0 ? strrchr(target, '/') + 1 : "");
}

static bool is_nic(const char *address)
{
	char path[128], class[32];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%.40s/class", address);
	return doctor_first_line(path, class, sizeof(class)) && strncmp(class, "0x02", 4) == 0;
}

static bool is_ready(const char *driver)
{
	static const char *const ready[] = {"vfio-pci", "uio_pci_generic", "igb_uio", "mlx5_core"};

	for (unsigned i = 0; i < sizeof(ready) / sizeof(ready[0]); i++) {
		if (strcmp(driver, ready[i]) == 0)
			return true;
	}
	return false;
}

static bool has_entry(const char *folder)
{
	DIR *dir = opendir(folder);
	bool found = false;

	for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir))
		found |= e->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return found;
}

/* A text that grows as long as there is room. */
struct text {
	char *at;
	size_t cap, len;
};

__attribute__((format(printf, 2, 3))) static void add_text(struct text *t, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(t->at + t->len, t->cap - t->len, format, args);
	va_end(args);
	if (n > 0)
		t->len += (size_t)n < t->cap - t->len ? (size_t)n : t->cap - t->len - 1;
}

/* Returns how to switch the IOMMU on. AMD's needs no word for the kernel. */
static const char *iommu_step(void)
{
	char line[160];
	const char *step = "switch the IOMMU on in the firmware; ";
	FILE *file = fopen("/proc/cpuinfo", "re");

	while (file && fgets(line, sizeof(line), file)) {
		if (strstr(line, "GenuineIntel"))
			step = "boot with intel_iommu=on; ";
		else if (strstr(line, "AuthenticAMD"))
			step = "switch AMD-Vi on in the firmware, boot without amd_iommu=off; ";
	}
	if (file)
		fclose(file);
	return step;
}

/* Adds the commands, to be run as root, that this machine lacks before DPDK's drivers can use any
 * card. */
static void add_common_steps(uint64_t set, struct text *t)
{
	struct rlimit limit = {0};
	char pages[32] = "0";

	if (!has_entry("/sys/class/iommu"))
		add_text(t, "%s", iommu_step());
	(void)doctor_first_line("/proc/sys/vm/nr_hugepages", pages, sizeof(pages));
	if (atoi(pages) == 0)
		add_text(t, "sysctl vm.nr_hugepages=512; ");
	if (access("/sys/bus/pci/drivers/vfio-pci", F_OK) != 0)
		add_text(t, "modprobe vfio-pci; ");
	if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 ||
	    (limit.rlim_cur != RLIM_INFINITY && !has_capability(set, IPC_LOCK)))
		add_text(t, "ulimit -l unlimited; ");
}

/* Adds a command for each interface of a card that is up: dpdk-devbind.py takes no card in use. */
static void add_down_steps(const char *address, struct text *t)
{
	DIR *dir = opendir("/sys/class/net");
	char path[PATH_MAX], device[PATH_MAX], flags[32];

	for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
		snprintf(path, sizeof(path), "/sys/class/net/%.40s/device", e->d_name);
		if (e->d_name[0] == '.' || !realpath(path, device) || !strstr(device, address))
			continue;
		snprintf(path, sizeof(path), "/sys/class/net/%.40s/flags", e->d_name);
		if (doctor_first_line(path, flags, sizeof(flags)) &&
		    strtoul(flags, NULL, 16) & IFF_UP)
			add_text(t, "ip link set %.40s down; ", e->d_name);
	}
	if (dir)
		closedir(dir);
}

static void check_cards(struct visit *v, uint64_t set)
{
	static char steps[2048];
	struct finding *f = doctor_note(v, "dpdk-pci", false, steps);
	DIR *dir = opendir("/sys/bus/pci/devices");
	struct text found = {f->found, sizeof(f->found), 0}, fix = {steps, sizeof(steps), 0};
	char allow[512];
	struct text eal = {allow, sizeof(allow), 0};

	add_text(&fix, "only for DPDK's own drivers: ");
	for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
		char driver[64];

		if (e->d_name[0] == '.' || !is_nic(e->d_name))
			continue;
		if (found.len == 0)
			add_common_steps(set, &fix);
		driver_of(e->d_name, driver);
		f->ok |= is_ready(driver);
		add_text(&found, "%s%.40s (%s)", found.len ? ", " : "", e->d_name,
			 driver[0] ? driver : "no driver");
		add_text(&eal, "-a %.40s ", e->d_name);
		if (is_ready(driver))
			continue;
		add_down_steps(e->d_name, &fix);
		add_text(&fix, "dpdk-devbind.py -b vfio-pci %.40s; ", e->d_name);
	}
	if (dir)
		closedir(dir);
	if (found.len) {
		add_text(&fix, "export LEND_EAL='%s-m 512' (the kernel loses the cards)", allow);
	} else {
		add_text(&fix, "a network card on PCI");
		add_text(&found, "no network card on PCI");
	}
}

/* An RDMA device, its Ethernet interface and that interface's address; "" for missing ones. */
struct rdma {
	char name[64], state[32], netdev[32], ip[INET_ADDRSTRLEN];
};

static void learn_device(struct rdma *d, const char *name)
{
	char path[200];
	struct ifaddrs *all = NULL;

	*d = (struct rdma){.state = "unknown"};
	snprintf(d->name, sizeof(d->name), "%.63s", name);
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/state", d->name);
	(void)doctor_first_line(path, d->state, sizeof(d->state));
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/gid_attrs/ndevs/0", d->name);
	(void)doctor_first_line(path, d->netdev, sizeof(d->netdev));
	(void)getifaddrs(&all);
	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET &&
		    strcmp(i->ifa_name, d->netdev) == 0)
			inet_ntop(AF_INET, &((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr,
				  d->ip, sizeof(d->ip));
	}
	freeifaddrs(all);
}

static void try_rdma(struct visit *v, const struct rdma *d, const char *scheme, const char *fix)
{
	char name[80], listen[160];

	snprintf(name, sizeof(name), "%s %.32s", scheme, d->name);
	snprintf(listen, sizeof(listen), "%s:%s@%s:0", scheme, d->name, d->ip);
	if (d->ip[0]) {
		doctor_carrier(v, name, listen, NULL, fix);
		return;
	}
	snprintf(
	    doctor_note(v, name, false, "give its interface an address: ip addr add IP/24 dev DEV")
		->found,
	    DOCTOR_FOUND_MAX, "%s has no IPv4 address", d->netdev[0] ? d->netdev : "its interface");
}

static void check_rdma(struct visit *v)
{
	static const char soft[] =
	    "only for verbs: an RDMA card, or soft-RoCE (rdma link add rxe0 type rxe netdev DEV)";
	static const char card[] =
	    "only for raw: a ConnectX-4 or later, its port up, network rights";
	struct finding *f = doctor_note(v, "rdma", false, soft);
	DIR *dir = opendir("/sys/class/infiniband");
	struct rdma device[DEVICES_MAX];
	unsigned n = 0;
	size_t len = 0;

	for (struct dirent *e = dir ? readdir(dir) : NULL; e && n < DEVICES_MAX; e = readdir(dir)) {
		if (e->d_name[0] != '.')
			learn_device(&device[n++], e->d_name);
	}
	if (dir)
		closedir(dir);
	f->ok = n > 0;
	for (unsigned i = 0; i < n && len < sizeof(f->found); i++)
		len += (size_t)snprintf(f->found + len, sizeof(f->found) - len, "%s%.32s (%s)",
					i ? ", " : "", device[i].name, device[i].state);
	if (n == 0) {
		snprintf(f->found, sizeof(f->found), "no device");
		snprintf(doctor_note(v, "raw", false, card)->found, DOCTOR_FOUND_MAX,
			 "no RDMA device, so no mlx5 one");
	}
	for (unsigned i = 0; i < n; i++) {
		try_rdma(v, &device[i], "verbs", "what the line says; then the rdma row above");
		try_rdma(v, &device[i], "raw", card);
	}
}

void doctor_devices(struct visit *v)
{
	uint64_t set = read_capabilities();

	check_rights(v, set);
	locked_memory(v, set);
	software_devices(v, set);
	check_cards(v, set);
	check_rdma(v);
}
