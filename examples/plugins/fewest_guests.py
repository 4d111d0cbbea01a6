class fewest_guests:
    """Hosts below a number of guests; of these, the one with the fewest."""

    properties_validation = "maximum_vm_count=[0-9]+"

    def do_filter(self, hosts, vm, args):
        """Hosts below maximum_vm_count guests."""
        most = int(args.get("maximum_vm_count", 100))
        return [host for host in hosts if host.guests < most]

    def do_score(self, hosts, vm, args):
        """Hosts with fewer guests come first."""
        return [(host, host.guests) for host in hosts]

    def do_balance(self, hosts, args):
        """A guest leaves the host with the most, if these are more than maximum_vm_count."""
        most = int(args.get("maximum_vm_count", 100))
        full = max(hosts, key=lambda host: host.guests)
        if full.guests > most:
            return full.vms[0], [host for host in hosts if host.guests < most]
