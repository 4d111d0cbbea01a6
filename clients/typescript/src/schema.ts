// Written by generate.mjs from the API's description.

export interface paths {
    "/v1/applications": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists applications. */
        get: operations["list-applications"];
        put?: never;
        /** Admits a program as an application, whose sockets a network stack module serves. */
        post: operations["admit-application"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/applications/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows an application. */
        get: operations["show-application"];
        /** Changes an application to match the body. With another `nsm`, new sockets go there; present ones stay where they are. `properties` and `restart` can change, too. */
        put: operations["put-application"];
        post?: never;
        /** Removes an application. Its sockets are closed. A program that the node runs ends, by SIGTERM and after 10 s by SIGKILL; other programs go on without sockets. */
        delete: operations["delete-application"];
        options?: never;
        head?: never;
        /** Changes fields of an application (JSON merge patch); null resets a field. With another `nsm`, new sockets go there; present ones stay where they are. `properties` and `restart` can change, too. */
        patch: operations["patch-application"];
        trace?: never;
    };
    "/v1/applications/{name}/sockets": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the sockets of an application. */
        get: operations["list-sockets"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/applications/{name}/trace": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows what the sockets of an application do: the records behind one. The first request begins the trace, which ends after 10 s without a request. */
        get: operations["trace-sockets"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/crashes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the crash reports of guests that the node keeps, oldest first. */
        get: operations["list-crashes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/crashes/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows a crash report, by its number or as the last one of a guest. */
        get: operations["show-crash"];
        put?: never;
        post?: never;
        /** Removes a crash report by its number, or those of guests by a name or a pattern. */
        delete: operations["remove-crashes"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists what happened: the events that the node keeps. */
        get: operations["list-events"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/flow-stats": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows the counters of all flows. */
        get: operations["list-flow-stats"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/flow-stats/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows the counters of one flow. */
        get: operations["show-flow-stats"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/flows": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists flows. */
        get: operations["list-flows"];
        put?: never;
        /** Creates a flow. On a VNIC that is down, the flow waits until it is up. */
        post: operations["create-flow"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/flows/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows a flow. */
        get: operations["show-flow"];
        /** Creates a flow, or changes it to match the body. A changed flow is another one in the switch: it counts from 0, and its frames have no limit for a moment. */
        put: operations["put-flow"];
        post?: never;
        /** Removes a flow. */
        delete: operations["delete-flow"];
        options?: never;
        head?: never;
        /** Changes fields of a flow (JSON merge patch); null resets a field. A changed flow is another one in the switch: it counts from 0, and its frames have no limit for a moment. */
        patch: operations["patch-flow"];
        trace?: never;
    };
    "/v1/guest-actions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Does something with many guests at once, by names and patterns; the answer has each guest as soon as it is done. */
        post: operations["act-on-guests"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/guest-logs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows what guests printed: the lines that the node keeps of them, in the order in which it took them. */
        get: operations["list-guest-logs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/guest-restore": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Restores a saved guest: into the stopped guest of its name, or as a new one. */
        post: operations["restore-guest"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/guest-series": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Creates guests that differ by a number; the answer has each guest as soon as it runs. */
        post: operations["create-guests"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/guests": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists guests. The configurations are omitted. */
        get: operations["list-guests"];
        put?: never;
        /** Creates a guest. The answer comes when the guest runs; a guest that does not start is removed. */
        post: operations["create-guest"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/guests/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows a guest. */
        get: operations["show-guest"];
        /** Creates a guest, or changes it to match the body. `restart`, `health`, `cpu-max` and `memory-max` hold at once, and so does `config` by a hotswap that keeps state. Other changes of a guest that runs hold from its next start on, as `status.pending` says. */
        put: operations["put-guest"];
        post?: never;
        /** Removes a guest. The VNICs made for it are removed with it. */
        delete: operations["delete-guest"];
        options?: never;
        head?: never;
        /** Changes fields of a guest (JSON merge patch); null resets a field. `restart`, `health`, `cpu-max` and `memory-max` hold at once, and so does `config` by a hotswap that keeps state. Other changes of a guest that runs hold from its next start on, as `status.pending` says. */
        patch: operations["patch-guest"];
        trace?: never;
    };
    "/v1/guests/{name}/clone": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Makes copies of a guest, with its state and addresses of their own; the answer has each as soon as it runs. */
        post: operations["clone-guest"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/guests/{name}/configurations/{configuration}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows a configuration that a guest runs beside its main one. */
        get: operations["show-configuration"];
        /** Installs or replaces another configuration of a guest; others keep their state. */
        put: operations["install-configuration"];
        post?: never;
        /** Uninstalls a configuration of a guest; the others keep their state. */
        delete: operations["uninstall-configuration"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/guests/{name}/log": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows what a guest printed: the lines that the node keeps of it. */
        get: operations["show-guest-log"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/guests/{name}/migrate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Moves a running guest to another node, with its state, addresses and frames. */
        post: operations["migrate-guest"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/guests/{name}/read": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Reads a handler of a guest. */
        post: operations["read-handler"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/guests/{name}/rename": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Gives a guest another name; its VNICs keep theirs. */
        post: operations["rename-guest"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/guests/{name}/save": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Saves a guest to a file of the node's host; it is stopped then, or goes on with `keep`. */
        post: operations["save-guest"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/guests/{name}/write": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Writes a handler of a guest; `hotconfig` replaces its configuration, which is kept. */
        post: operations["write-handler"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/lanes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows the counters of the switch's lanes. */
        get: operations["list-lanes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/links": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists links. */
        get: operations["list-links"];
        put?: never;
        /** Creates a link. The interface belongs to the switch until the link is removed. */
        post: operations["create-link"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/links/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows a link. */
        get: operations["show-link"];
        /** Creates a link, or changes it to match the body. */
        put: operations["put-link"];
        post?: never;
        /** Removes a link. The interface is restored to its former state. */
        delete: operations["delete-link"];
        options?: never;
        head?: never;
        /** Changes fields of a link (JSON merge patch); null resets a field. Properties hold from the next frame on. */
        patch: operations["patch-link"];
        trace?: never;
    };
    "/v1/node": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows the node's version, processes and number of resources. */
        get: operations["show-node"];
        put?: never;
        post?: never;
        /** Removes all guests, VNICs, links, the switch and the state, and ends the node; `confirm` must be true. */
        delete: operations["purge-node"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/node/end-unknown": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Ends the guests that run and of which no record is left; the answer lists them. */
        post: operations["end-unknown"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/node/forget-damaged": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Forgets the damaged records of the state. */
        post: operations["forget-damaged"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/nsms": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists network stack modules. */
        get: operations["list-nsms"];
        put?: never;
        /** Creates a network stack module. The answer comes when it serves; one that does not start is removed. */
        post: operations["create-nsm"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/nsms/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows a network stack module. */
        get: operations["show-nsm"];
        /** Creates a network stack module, or changes it to match the body. Its `properties` can change, at once, and its `cores`: it restarts, as if it had ended. */
        put: operations["put-nsm"];
        post?: never;
        /** Removes a network stack module. No application may use it. */
        delete: operations["delete-nsm"];
        options?: never;
        head?: never;
        /** Changes fields of a network stack module (JSON merge patch); null resets a field. Its `properties` can change, at once, and its `cores`: it restarts, as if it had ended. */
        patch: operations["patch-nsm"];
        trace?: never;
    };
    "/v1/settled-flows": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the flows of which guests said that they are settled, and for those that are not, why; with `name`, of these VNICs. */
        get: operations["list-settled-flows"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stats": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows the counters of all attached interfaces, VNICs and patches. */
        get: operations["list-stats"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stats/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows the counters of one attached interface, VNIC or end of a patch. */
        get: operations["show-stats"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stats/{name}/lanes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows the counters of one attached interface, VNIC or end of a patch, for each lane. */
        get: operations["show-lane-stats"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stubs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists stubs. */
        get: operations["list-stubs"];
        put?: never;
        /** Creates a stub. */
        post: operations["create-stub"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/stubs/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows a stub. */
        get: operations["show-stub"];
        /** Creates a stub, or changes it to match the body. The MTU of a stub cannot change. */
        put: operations["put-stub"];
        post?: never;
        /** Removes a stub. No VNIC may be on it. */
        delete: operations["delete-stub"];
        options?: never;
        head?: never;
        /** Changes fields of a stub (JSON merge patch); null resets a field. The MTU of a stub cannot change. */
        patch: operations["patch-stub"];
        trace?: never;
    };
    "/v1/switches": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the switches of all links. */
        get: operations["list-switches"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/switches/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows the switch of a link. */
        get: operations["show-switch"];
        /** Changes the switch of a link to match the body. */
        put: operations["put-switch"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /** Changes fields of the switch of a link (JSON merge patch); null resets a field. */
        patch: operations["patch-switch"];
        trace?: never;
    };
    "/v1/switches/{name}/flows": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the entries of a link's flow table: made by command, or learned. */
        get: operations["list-entries"];
        put?: never;
        /** Sets the port of the link that a flow goes to. */
        post: operations["add-entry"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/switches/{name}/flows/{flow}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Removes the entry, made by command, of a flow. */
        delete: operations["remove-entry"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/switches/{name}/flush": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Removes the addresses that the switch of a link has learned. */
        post: operations["flush-macs"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/switches/{name}/macs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the Ethernet addresses that the switch of a link knows. */
        get: operations["list-macs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/vnics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists VNICs. */
        get: operations["list-vnics"];
        put?: never;
        /** Creates a VNIC. Its interface in a namespace or on the host is made with it. One with `guest` waits for a frame. */
        post: operations["create-vnic"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/vnics/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows a VNIC. */
        get: operations["show-vnic"];
        /** Creates a VNIC, or changes it to match the body. `properties` and `addresses` can change; properties hold from the next frame on. */
        put: operations["put-vnic"];
        post?: never;
        /** Removes a VNIC. Its interface is removed with it, or the guest that it started; no other guest may have it. */
        delete: operations["delete-vnic"];
        options?: never;
        head?: never;
        /** Changes fields of a VNIC (JSON merge patch); null resets a field. `properties` and `addresses` can change; properties hold from the next frame on. */
        patch: operations["patch-vnic"];
        trace?: never;
    };
    "/v1/wires": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists wires. The configurations of guests are omitted. */
        get: operations["list-wires"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/wires/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Shows a wire. */
        get: operations["show-wire"];
        /** Makes a wire match the body, as a whole or not at all. The answer lists the steps. */
        put: operations["apply-wire"];
        post?: never;
        /** Removes a wire. All its parts are removed with it. */
        delete: operations["delete-wire"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/wires/{name}/diff": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Lists the steps that applying a wire would take. */
        post: operations["compare-wire"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /**
         * @description What is done with guests.
         * @enum {string}
         */
        Action: "start" | "stop" | "restart" | "pause" | "resume" | "announce" | "template" | "destroy";
        /** @description An address that a link's switch knows. */
        Address: {
            /**
             * Format: uint32
             * @description Seconds since it was last seen; none for one that does not age.
             */
            age?: number | null;
            /**
             * @description The address.
             * @example 02:00:00:00:00:01
             */
            mac: string;
            /** @description The VNIC or interface that it is behind. */
            port: string;
            /**
             * Format: uint16
             * @description Its VLAN; 0 for frames without a tag.
             */
            vlan: number;
        };
        /** @description A program that is to become an application. */
        Admission: {
            /** @description The application's name. */
            name: string;
            /** @description The NSM that its sockets are to go to. */
            nsm: string;
            /**
             * Format: uint32
             * @description The program's process: the application lasts at least as long.
             */
            pid: number;
            /** @description What it may have: `maxbw`, `conns`, `weight`. */
            properties?: components["schemas"]["ApplicationProperties"];
        };
        /** @description What an application's programs need in their environment. */
        Admitted: {
            /** @description `LD_PRELOAD`: the library that redirects sockets. */
            library: string;
            /** @description `WEIR_SOCK`: where, and as which application, its processes join CoreEngine. It is a secret of the application. */
            sock: string;
        };
        /** @description An application: a program, with its children, whose sockets an NSM serves. */
        Application: {
            /**
             * @description The folder that the program starts in; default: the root folder. In a wire's file it is relative to the wire's
             *     own folder.
             */
            directory?: string | null;
            /** @description Variables of the program's environment, besides `PATH`, and `HOME`, `USER`, `LOGNAME` and `SHELL` of its user. */
            environment?: {
                [key: string]: string;
            };
            /** @description How the program's socket calls come to the NSM. */
            intercept?: components["schemas"]["Intercept"];
            /** @description The NSM that its new sockets go to. */
            nsm: string;
            /** @description What it may have: `maxbw`, `conns`, `weight`. */
            properties?: components["schemas"]["ApplicationProperties"];
            /** @description When the node restarts the program that it runs. */
            restart?: components["schemas"]["Restart"];
            /**
             * @description The program that the node runs, and its arguments, as a shell splits them; none: the program was started by
             *     `weir sock run`.
             * @example [
             *       "nginx",
             *       "-g",
             *       "daemon off;"
             *     ]
             */
            run?: string[];
            /** @description The user that the program runs as, with the user's groups; default: the node's. */
            user?: string | null;
        };
        /** @description An application: a program, with its children, whose sockets an NSM serves. */
        ApplicationObject: {
            /**
             * @description The folder that the program starts in; default: the root folder. In a wire's file it is relative to the wire's
             *     own folder.
             */
            directory?: string | null;
            /** @description Variables of the program's environment, besides `PATH`, and `HOME`, `USER`, `LOGNAME` and `SHELL` of its user. */
            environment?: {
                [key: string]: string;
            };
            /** @description How the program's socket calls come to the NSM. */
            intercept?: components["schemas"]["Intercept"];
            /** @description Its name. */
            name: string;
            /** @description The NSM that its new sockets go to. */
            nsm: string;
            /** @description What it may have: `maxbw`, `conns`, `weight`. */
            properties?: components["schemas"]["ApplicationProperties"];
            /** @description When the node restarts the program that it runs. */
            restart?: components["schemas"]["Restart"];
            /**
             * @description The program that the node runs, and its arguments, as a shell splits them; none: the program was started by
             *     `weir sock run`.
             * @example [
             *       "nginx",
             *       "-g",
             *       "daemon off;"
             *     ]
             */
            run?: string[];
            status?: components["schemas"]["ApplicationStatus"];
            /** @description The user that the program runs as, with the user's groups; default: the node's. */
            user?: string | null;
        };
        /** @description What an application may have. */
        ApplicationProperties: {
            /** @description Most sockets at a time; default: as many as there can be. */
            conns?: number | null;
            /** @description Highest rate of its payload, both directions together; default: no limit. */
            maxbw?: string | null;
            /**
             * @description Weight among the applications that have socket calls to pass on.
             * @default 1
             */
            weight?: number;
        };
        /** @description An application as it is. Counters run from its start, or the last one of CoreEngine. */
        ApplicationStatus: {
            /**
             * Format: uint64
             * @description Connections made and accepted.
             * @default 0
             */
            connections?: number;
            /**
             * Format: double
             * @description Seconds of processor time that the process has used that it was started as, and its children that have ended.
             * @default null
             */
            "cpu-s"?: number | null;
            /**
             * Format: uint32
             * @description The process that it was started as.
             * @default 0
             */
            pid?: number;
            /**
             * @description Processes of it that use sockets.
             * @default 0
             */
            processes?: number;
            /**
             * @description Why not.
             * @default null
             */
            reason?: string | null;
            /**
             * Format: uint64
             * @description Bytes received.
             * @default 0
             */
            received?: number;
            /**
             * Format: uint64
             * @description Sockets refused, since the application or its NSM had as many as it may.
             * @default 0
             */
            refused?: number;
            /**
             * Format: uint32
             * @description Number of times that this node has restarted its program.
             * @default 0
             */
            restarts?: number;
            /**
             * Format: uint64
             * @description Bytes sent.
             * @default 0
             */
            sent?: number;
            /**
             * @description Its sockets.
             * @default 0
             */
            sockets?: number;
            /**
             * @description Whether its program runs.
             * @default unused
             */
            state?: components["schemas"]["State"];
            /**
             * Format: uint64
             * @description Queue elements that broke the protocol.
             * @default 0
             */
            violations?: number;
        };
        /**
         * @description What a link is.
         * @enum {string}
         */
        Class: "nic" | "stub";
        /** @description Copies of a guest that are to be made. */
        Clones: {
            /**
             * Format: uint32
             * @description How many; at most 100 000.
             */
            count: number;
            /**
             * Format: uint32
             * @description The first one's number.
             */
            first?: number;
            /** @description Their name, with `{}` for the number. One copy needs none. */
            name: string;
        };
        /** @description A configuration that a guest runs beside its main one. */
        Configuration: {
            /** @description The configuration, in Click's language. A list of guests leaves it out. */
            config?: string;
            /** @description Its file: in a wire's file it is read from there; in the API it is the configuration's name in messages. */
            file?: string | null;
            /** @description Values of its variables, or of a function's parameters, which are its own. */
            variables?: {
                [key: string]: string;
            };
        };
        /**
         * @description State of one of the configurations that a guest runs.
         * @enum {string}
         */
        ConfigurationState: "running" | "halted" | "error";
        /** @description How a guest crashed. */
        CrashReport: {
            /** @description CRC-32 of the configuration with its variables, in hexadecimal: equal configurations have equal ones. */
            "config-hash": string;
            /** @description The last lines that it printed. A list leaves them out. */
            console?: string[];
            /**
             * Format: uint32
             * @description The vCPU, if it has several.
             */
            cpu?: number | null;
            /** @description The element that it reported to run, with its line in the configuration. */
            element?: string | null;
            /** @description The guest. */
            guest: string;
            /**
             * Format: uint64
             * @description Its number, which no other report has.
             */
            number: number;
            /** @description How it ended: a sentence. */
            reason: string;
            /** @description Registers by their names, in hexadecimal. A list leaves them out. */
            registers?: {
                [key: string]: string;
            };
            /** @description Function and offset of the instruction. */
            symbol?: string | null;
            /** @description When the node noticed the crash (RFC 3339). */
            time: string;
            /**
             * Format: double
             * @description Seconds that it ran.
             */
            uptime?: number | null;
            /** @description The version of the node. */
            version: string;
        };
        /** @description An entry of a flow table: the port of a link that a flow goes to. */
        Entry: {
            /**
             * @description The flow, in one direction, in ovs-ofctl's words.
             * @example tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_src=1024,tp_dst=80
             */
            flow: string;
            /** @description The VNIC, or the link's own interface, that it goes to. */
            port: string;
            /** @description Its status; ignored in a request. */
            status?: components["schemas"]["EntryStatus"];
        };
        /** @description An entry as it is. */
        EntryStatus: {
            /**
             * Format: uint32
             * @description Seconds since the other direction of a learned one was last seen; none if it was made by
             *     command.
             * @default null
             */
            age?: number | null;
            /**
             * @description Whether frames go by it: its port may be down.
             * @default unused
             */
            state?: components["schemas"]["State"];
        };
        /** @description Why the node did not do what was asked, as the API answers it. */
        Error: {
            /** @description What was wrong, where, and what would be right. */
            error: string;
            /** @description The field of the request that is wrong, if it is one. */
            field?: string | null;
            /** @description What kind of thing went wrong. */
            kind: components["schemas"]["Kind"];
        };
        /** @description Something that happened. */
        Event: {
            /** @description Whose request it was: `root`, or another user of the API; none if it was nobody's. */
            by?: string | null;
            /** @description What happened. */
            event: components["schemas"]["Happened"];
            /** @description The name of that; none if there is only one. */
            name?: string;
            /** @description What the node does about it, or what else is to be known. */
            note?: string | null;
            /**
             * Format: uint64
             * @description Its number, which is higher than that of any earlier event, also of an earlier node.
             */
            number: number;
            /** @description Why. */
            reason?: string | null;
            /** @description When it happened (RFC 3339). */
            time: string;
            /** @description What kind of thing it happened to. */
            topic: components["schemas"]["Topic"];
        };
        /** @description A class of traffic on a link or VNIC. */
        Flow: {
            /** @description Which frames belong to it, by flowadm's names: `local_ip`, `transport`, `local_port` … */
            attributes: components["schemas"]["FlowAttributes"];
            /** @description The link, stub or VNIC that it is on. */
            link: string;
            /** @description Its limit and priority. */
            properties?: components["schemas"]["FlowProperties"];
        };
        /** @description Which frames belong to a flow, by flowadm's names; at least one. */
        FlowAttributes: {
            /** @description Differentiated services field. */
            dsfield?: string | null;
            /** @description Local IP address or prefix. */
            local_ip?: string | null;
            /** @description Local TCP, UDP or SCTP port. */
            local_port?: number | null;
            /** @description Remote IP address or prefix. */
            remote_ip?: string | null;
            /** @description Remote TCP, UDP or SCTP port. */
            remote_port?: number | null;
            /** @description Transport protocol. */
            transport?: string | null;
        };
        /** @description A class of traffic on a link or VNIC. */
        FlowObject: {
            /** @description Which frames belong to it, by flowadm's names: `local_ip`, `transport`, `local_port` … */
            attributes: components["schemas"]["FlowAttributes"];
            /** @description The link, stub or VNIC that it is on. */
            link: string;
            /** @description Its name. */
            name: string;
            /** @description Its limit and priority. */
            properties?: components["schemas"]["FlowProperties"];
            status?: components["schemas"]["FlowStatus"];
        };
        /** @description Limit and priority of a flow. */
        FlowProperties: {
            /** @description Highest rate, both directions together; default: no limit. */
            maxbw?: string | null;
            /**
             * @description Level of the flow's frames; default: the port's.
             * @enum {string|null}
             */
            priority?: "low" | "medium" | "high" | null;
        };
        /** @description Counters of a flow. */
        FlowStats: {
            /**
             * Format: uint64
             * @description Bytes of the flow that passed.
             */
            bytes: number;
            /**
             * Format: uint64
             * @description Frames dropped since too many waited.
             */
            dropped: number;
            /**
             * Format: uint64
             * @description Frames of the flow that passed.
             */
            frames: number;
            /**
             * Format: uint64
             * @description Frames that waited for the flow's limit.
             */
            held: number;
            /** @description The link or VNIC that it is on. */
            link: string;
            /** @description Its name. */
            name: string;
        };
        /** @description A flow as it is. */
        FlowStatus: {
            /**
             * @description Why not.
             * @default null
             */
            reason?: string | null;
            /**
             * @description Whether it works.
             * @default unused
             */
            state?: components["schemas"]["State"];
        };
        /** @description A network function in a virtual machine. */
        Guest: {
            /** @description The configuration, in Click's language. A list of guests leaves it out. */
            config?: string;
            /** @description Configurations that it runs beside that one, by their names. The elements of one are `NAME/ELEMENT`. */
            configurations?: {
                [key: string]: components["schemas"]["Configuration"];
            };
            /**
             * Format: double
             * @description Processors of the host that its process may use, as in 0.5; default: all.
             */
            "cpu-max"?: number | null;
            /** @description Virtual CPUs; default: 1. */
            cpus?: number | null;
            /**
             * @description The file of its configuration. In a wire's file it is read from there, relative to the wire's
             *     own folder, unless it is a function's name; in the API it is the configuration's name in messages, and `config` is
             *     needed beside it.
             */
            file?: string | null;
            /**
             * @description Checks of its health, as in `c.count > 0 every 5s failures 3`: a handler is read now and then, and the guest is
             *     unhealthy after so many failures in a row. One that may be restarted is restarted then.
             */
            health?: string[];
            /**
             * @description By the names of its interfaces: the VNIC of each, or a link for which a VNIC is made that is
             *     removed with the guest.
             */
            interfaces?: {
                [key: string]: string;
            };
            /** @description The wall around it. */
            isolation?: components["schemas"]["Isolation"];
            /**
             * @description Private memory, in bytes, or with K, M or G; default: 4 MiB.
             * @example 4M
             */
            memory?: string | number | null;
            /**
             * @description Memory that its process may use, its private memory included; default: no limit.
             * @example 4M
             */
            "memory-max"?: string | number | null;
            /** @description The NSM that serves its sockets, of SocketServer and SocketClient; default: it has none. */
            nsm?: string | null;
            /** @description CPUs of the host that those are tied to, one each in turn; without any, they run on all. */
            pin?: number[];
            /** @description When it is restarted; default: `on-failure`. */
            restart?: components["schemas"]["Restart"];
            /**
             * Format: uint32
             * @description Slots of each of its rings, a power of two from 64 to 2048; default: 256.
             */
            "ring-slots"?: number | null;
            /**
             * @description Values of the configuration's variables: `{"RATE": "1000"}` is what `RATE=1000` is to `weir click`. Each
             *     overrides a `define` of the configuration. In a wire's file, `parameters` says the same of a function.
             */
            variables?: {
                [key: string]: string;
            };
        };
        /** @description An action on guests. */
        GuestAction: {
            /** @description What is done. */
            action: components["schemas"]["Action"];
            /**
             * @description Names, and patterns such as `fw-*`: `*` stands for any characters, `?` for one, `[a-c]` for
             *     one of those.
             */
            guests: string[];
        };
        /** @description A network function in a virtual machine. */
        GuestObject: {
            /** @description The configuration, in Click's language. A list of guests leaves it out. */
            config?: string;
            /** @description Configurations that it runs beside that one, by their names. The elements of one are `NAME/ELEMENT`. */
            configurations?: {
                [key: string]: components["schemas"]["Configuration"];
            };
            /**
             * Format: double
             * @description Processors of the host that its process may use, as in 0.5; default: all.
             */
            "cpu-max"?: number | null;
            /** @description Virtual CPUs; default: 1. */
            cpus?: number | null;
            /**
             * @description The file of its configuration. In a wire's file it is read from there, relative to the wire's
             *     own folder, unless it is a function's name; in the API it is the configuration's name in messages, and `config` is
             *     needed beside it.
             */
            file?: string | null;
            /**
             * @description Checks of its health, as in `c.count > 0 every 5s failures 3`: a handler is read now and then, and the guest is
             *     unhealthy after so many failures in a row. One that may be restarted is restarted then.
             */
            health?: string[];
            /**
             * @description By the names of its interfaces: the VNIC of each, or a link for which a VNIC is made that is
             *     removed with the guest.
             */
            interfaces?: {
                [key: string]: string;
            };
            /** @description The wall around it. */
            isolation?: components["schemas"]["Isolation"];
            /**
             * @description Private memory, in bytes, or with K, M or G; default: 4 MiB.
             * @example 4M
             */
            memory?: string | number | null;
            /**
             * @description Memory that its process may use, its private memory included; default: no limit.
             * @example 4M
             */
            "memory-max"?: string | number | null;
            /** @description Its name. */
            name: string;
            /** @description The NSM that serves its sockets, of SocketServer and SocketClient; default: it has none. */
            nsm?: string | null;
            /** @description CPUs of the host that those are tied to, one each in turn; without any, they run on all. */
            pin?: number[];
            /** @description When it is restarted; default: `on-failure`. */
            restart?: components["schemas"]["Restart"];
            /**
             * Format: uint32
             * @description Slots of each of its rings, a power of two from 64 to 2048; default: 256.
             */
            "ring-slots"?: number | null;
            status?: components["schemas"]["GuestStatus"];
            /**
             * @description Values of the configuration's variables: `{"RATE": "1000"}` is what `RATE=1000` is to `weir click`. Each
             *     overrides a `define` of the configuration. In a wire's file, `parameters` says the same of a function.
             */
            variables?: {
                [key: string]: string;
            };
        };
        /** @description What became of one guest. */
        GuestOutcome: {
            error?: components["schemas"]["Error"] | null;
            /** @description Its name, or a pattern that no guest has. */
            guest: string;
            status?: components["schemas"]["GuestStatus"] | null;
        };
        /** @description Guests that differ by a number. */
        GuestSeries: {
            /**
             * Format: uint32
             * @description How many; at most 100 000.
             */
            count: number;
            /**
             * Format: uint32
             * @description The first one's number.
             */
            first?: number;
            /** @description The guest. In the VNICs and links of its interfaces, `{}` is the number, too. */
            guest: components["schemas"]["Guest"];
            /** @description Their name, with `{}` for the number. */
            name: string;
        };
        /**
         * @description State of a guest.
         * @enum {string}
         */
        GuestState: "starting" | "running" | "paused" | "template" | "silent" | "unhealthy" | "stopped" | "halted" | "crashed" | "arriving";
        /** @description A guest as it is. */
        GuestStatus: {
            /**
             * Format: double
             * @description Milliseconds from the order to start it to its main loop; none if this node adopted it.
             * @default null
             */
            "boot-ms"?: number | null;
            /**
             * @description The state of each configuration that it runs, if there are several. Its main one is `main`.
             * @default {}
             */
            configurations?: {
                [key: string]: components["schemas"]["ConfigurationState"];
            };
            /**
             * Format: double
             * @description Seconds of processor time that its process has used.
             * @default null
             */
            "cpu-s"?: number | null;
            /**
             * Format: uint16
             * @description Its number in the control store, where it is a domain while it runs.
             * @default 0
             */
            "domain-id"?: number;
            /**
             * Format: uint64
             * @description Its number; never given twice.
             * @default 0
             */
            id?: number;
            /**
             * @description Warnings about its configuration; in the answer to its creation or change only.
             * @default null
             */
            messages?: string | null;
            /**
             * @description Fields that were changed while it runs, and hold from its next start on.
             * @default []
             */
            pending?: string[];
            /**
             * Format: uint32
             * @description Its process.
             * @default null
             */
            pid?: number | null;
            /**
             * @description How it ended.
             * @default null
             */
            reason?: string | null;
            /**
             * Format: uint64
             * @description Bytes of memory that its process has in use, shared pages included.
             * @default null
             */
            resident?: number | null;
            /**
             * Format: uint32
             * @description Number of times that this node has restarted it.
             * @default 0
             */
            restarts?: number;
            /**
             * @description Its state.
             * @default starting
             */
            state?: components["schemas"]["GuestState"];
            /**
             * Format: double
             * @description Seconds that it has run.
             * @default null
             */
            "uptime-s"?: number | null;
            /**
             * @description The VNIC of each interface.
             * @default {}
             */
            vnics?: {
                [key: string]: string;
            };
            /**
             * @description The wall that it has got: `vm` or `process`.
             * @default null
             */
            wall?: string | null;
        };
        /** @description A handler to be read. */
        HandlerRead: {
            /**
             * @description `ELEMENT.HANDLER`, or `HANDLER` for one of the router's own, with its argument behind a
             *     space.
             */
            handler: string;
        };
        /** @description The value of a handler. */
        HandlerValue: {
            /** @description Its value; bytes that are no text are replaced. */
            value: string;
        };
        /** @description A handler to be written. */
        HandlerWrite: {
            /** @description `ELEMENT.HANDLER`, or `HANDLER` for one of the router's own. */
            handler: string;
            /** @description The value. */
            value?: string;
        };
        /**
         * @description What happened.
         * @enum {string}
         */
        Happened: "created" | "changed" | "removed" | "started" | "running" | "ended" | "crashed" | "restarted" | "stopped" | "paused" | "resumed" | "saved" | "template" | "arrived" | "left" | "in-doubt" | "renamed" | "installed" | "uninstalled" | "unhealthy" | "healthy" | "up" | "down" | "applied" | "lost";
        /**
         * @description How a program's socket calls come to its NSM.
         * @enum {string}
         */
        Intercept: "auto" | "preload" | "syscall";
        /**
         * @description The wall around a guest.
         * @enum {string}
         */
        Isolation: "vm" | "process" | "auto";
        /**
         * @description What kind of thing went wrong.
         * @enum {string}
         */
        Kind: "invalid" | "forbidden" | "not-found" | "not-allowed" | "late" | "exists" | "in-use" | "too-large" | "not-json" | "refused" | "unavailable" | "failed";
        /** @description Counters of one lane of the switch. */
        LaneStats: {
            /**
             * Format: uint64
             * @description Nanoseconds asleep.
             */
            asleep: number;
            /**
             * Format: uint64
             * @description Nanoseconds of rounds that moved frames.
             */
            busy: number;
            /**
             * Format: uint64
             * @description Frames picked up while their queue was polled.
             */
            "by-poll": number;
            /**
             * Format: uint64
             * @description Frames picked up first thing after a wake-up.
             */
            "by-wakeup": number;
            /**
             * Format: uint64
             * @description Chains of 10 to 50 frames picked up at once.
             */
            "chains-10-to-50": number;
            /**
             * Format: uint64
             * @description Chains of more than 50 frames picked up at once.
             */
            "chains-over-50": number;
            /**
             * Format: uint64
             * @description Chains of fewer than 10 frames picked up at once.
             */
            "chains-under-10": number;
            /**
             * Format: uint32
             * @description CPU that it keeps to, if it does.
             */
            cpu?: number | null;
            /**
             * Format: uint64
             * @description Frames that the lane picked up.
             */
            frames: number;
            /**
             * Format: uint64
             * @description Frames from other lanes whose port was gone or had moved meanwhile.
             */
            "handoff-drops": number;
            /**
             * Format: uint64
             * @description Frames that came from other lanes.
             */
            handoffs: number;
            /**
             * Format: uint64
             * @description Nanoseconds of rounds that found none.
             */
            idle: number;
            /**
             * Format: uint32
             * @description Its number.
             */
            lane: number;
            /**
             * Format: uint32
             * @description Queues that it serves.
             */
            queues: number;
            /**
             * Format: uint64
             * @description Times that the lane slept until something woke it.
             */
            wakeups: number;
        };
        /** @description A switch with a NIC: an interface of the host, or other hosts by VXLAN. */
        Link: {
            /** @description The host's interface; without one, that of the link's name. With `vxlan` there is none. */
            device?: string;
            /** @description How the interface is attached. */
            mode?: components["schemas"]["Mode"];
            /** @description Properties of the interface's port: `lanes`, `maxbw` and so on. */
            port?: components["schemas"]["PortProperties"];
            /** @description Properties of the switch. */
            properties?: components["schemas"]["SwitchProperties"];
            vxlan?: components["schemas"]["Tunnel"] | null;
        };
        /** @description A switch with a NIC: an interface of the host, or other hosts by VXLAN. */
        LinkObject: {
            /** @description The host's interface; without one, that of the link's name. With `vxlan` there is none. */
            device?: string;
            /** @description How the interface is attached. */
            mode?: components["schemas"]["Mode"];
            /** @description Its name. */
            name: string;
            /** @description Properties of the interface's port: `lanes`, `maxbw` and so on. */
            port?: components["schemas"]["PortProperties"];
            /** @description Properties of the switch. */
            properties?: components["schemas"]["SwitchProperties"];
            status?: components["schemas"]["LinkStatus"];
            vxlan?: components["schemas"]["Tunnel"] | null;
        };
        /** @description A link or stub as it is. */
        LinkStatus: {
            /**
             * @description Link or stub.
             * @default stub
             */
            class?: components["schemas"]["Class"];
            /**
             * @description The kind of its port, as `packet`; none for a stub.
             * @default null
             */
            mode?: string | null;
            /**
             * Format: uint16
             * @description Largest IP packet, in bytes.
             * @default 0
             */
            mtu?: number;
            /**
             * @description Why not.
             * @default null
             */
            reason?: string | null;
            /**
             * @description Whether it works.
             * @default unused
             */
            state?: components["schemas"]["State"];
            /**
             * @description Number of VNICs on it.
             * @default 0
             */
            vnics?: number;
        };
        /** @description One line that a guest printed. */
        LogLine: {
            /** @description The guest. */
            guest: string;
            /** @description The line, with control characters escaped. */
            line: string;
            /**
             * Format: uint64
             * @description Bytes of text that were lost here, which the line says; the guest printed more than its
             *     console holds.
             */
            lost?: number | null;
            /**
             * Format: uint64
             * @description Its number; lines of all guests are numbered in the order in which the node took them.
             */
            number: number;
            /** @description When the node took it from the guest's console (RFC 3339). */
            time: string;
        };
        /** @description Where a guest is to go on. */
        Migrate: {
            /** @description Links of the other node by the guest's interfaces; default: those of the same names. */
            links?: {
                [key: string]: string;
            };
            /** @description The other node, as `HOST:PORT`. */
            to: string;
        };
        /** @description How a guest was migrated. */
        Migrated: {
            /**
             * Format: double
             * @description Milliseconds from the order to stand still to the other node's word that it runs there.
             */
            "blackout-ms": number;
            /**
             * Format: uint64
             * @description Bytes that were sent.
             */
            bytes: number;
            /**
             * Format: uint64
             * @description Bytes of them that were sent while it stood still.
             */
            "last-bytes": number;
            /**
             * Format: uint64
             * @description Frames that came meanwhile, and followed it.
             */
            "late-frames": number;
            /**
             * Format: uint32
             * @description Rounds of copying while it ran.
             */
            rounds: number;
            /**
             * Format: double
             * @description Milliseconds from the request to the end.
             */
            "total-ms": number;
        };
        /**
         * @description How an interface of the host is attached.
         * @enum {string}
         */
        Mode: "auto" | "xdp" | "packet" | "tap";
        /** @description A network namespace, as `ip netns` knows it. */
        Namespace: {
            /** @description Whether it is there already: then the wire neither makes nor removes it. */
            existing?: boolean;
            /** @description Whether it forwards IP packets between its interfaces. */
            forwarding?: boolean;
            /**
             * @description Its routes, besides the routes that follow from its addresses.
             * @example [
             *       "default via 10.0.1.1"
             *     ]
             */
            routes?: string[];
        };
        /** @description An Ethernet address behind another host. Frames to it, and ARP requests for its IP addresses, go to that host alone. */
        Neighbor: {
            /**
             * @description Its IPv4 addresses.
             * @example [
             *       "10.0.0.2"
             *     ]
             */
            ips?: string[];
            /**
             * @description The address.
             * @example 02:00:00:00:00:01
             */
            mac: string;
            /**
             * @description The other host, one of the remotes.
             * @example 192.0.2.2
             */
            remote: string;
        };
        /** @description The node itself. */
        NodeStatus: {
            /** @description Applications whose sockets network stack modules serve. */
            applications?: number;
            /**
             * Format: uint32
             * @description CoreEngine's process, which switches between applications and network stack modules; none without any of these.
             */
            "core-pid"?: number | null;
            /** @description Records of the state that are damaged, as in `guests/fw`. Their resources are not there; the others are. */
            damaged?: string[];
            /** @description Flows. */
            flows: number;
            /** @description Guests. */
            guests: number;
            /** @description Links, stubs included. */
            links: number;
            /** @description Network stack modules. */
            nsms?: number;
            /**
             * Format: uint32
             * @description Its process.
             */
            pid: number;
            /**
             * Format: uint64
             * @description Flows whose packets the kernel passes on, in one direction each.
             */
            "settled-flows": number;
            /**
             * Format: uint32
             * @description The control store's process; none while there is none.
             */
            "store-pid"?: number | null;
            /**
             * Format: uint32
             * @description The switch's process; none while there is none.
             */
            "switch-pid"?: number | null;
            /**
             * Format: uint64
             * @description Number of times that this node had to start a switch because the last one ended.
             */
            "switch-restarts": number;
            /** @description Guests that run and of which no record is left. */
            "unknown-guests"?: components["schemas"]["UnknownGuest"][];
            /** @description Its version. */
            version: string;
            /** @description VNICs. */
            vnics: number;
        };
        /** @description A network stack module: a process whose network stack serves the sockets of applications. */
        Nsm: {
            /**
             * @description Of a user NSM: its IP addresses, with their prefixes. Of an shm NSM: the addresses that its applications have besides the
             *     loopback's.
             * @example [
             *       "10.0.0.2/24"
             *     ]
             */
            addresses?: string[];
            /**
             * Format: uint8
             * @description Of a kernel NSM: its workers, each a thread with sockets of its own, 1 to 16; default: 1. Another number restarts it.
             */
            cores?: number | null;
            /**
             * @description Of a user NSM: the routers for what is in none of its networks, at most one of each IP version.
             * @example [
             *       "10.0.0.1"
             *     ]
             */
            gateways?: string[];
            /** @description What its network stack is. */
            kind?: components["schemas"]["NsmKind"];
            /** @description Of a user NSM: the link or stub of its VNIC, which has the NSM's name, and is made and removed with it. */
            link?: string | null;
            /** @description Of a kernel NSM: connections between its own sockets go through shared memory, not through its network stack. */
            local?: boolean;
            /**
             * @description Of a kernel NSM: the network namespace that it is in, by its name (`ip netns`); default: one of its own,
             *     `weir-nsm-NAME`, which is made and removed with it. Of a program: that which it is in; default: the node's.
             */
            namespace?: string | null;
            /** @description Of an shm NSM: what connections to addresses that are not its own fail with. */
            others?: components["schemas"]["Others"];
            /** @description What it may have, for all its applications together: `maxbw`, `conns`. */
            properties?: components["schemas"]["NsmProperties"];
            /**
             * @description Of a program: the program and its arguments. CoreEngine's socket becomes its last argument, its token is in
             *     `WEIR_NSM_TOKEN`.
             */
            run?: string[];
        };
        /**
         * @description What an NSM's network stack is.
         * @enum {string}
         */
        NsmKind: "kernel" | "user" | "shm" | "program";
        /** @description A network stack module: a process whose network stack serves the sockets of applications. */
        NsmObject: {
            /**
             * @description Of a user NSM: its IP addresses, with their prefixes. Of an shm NSM: the addresses that its applications have besides the
             *     loopback's.
             * @example [
             *       "10.0.0.2/24"
             *     ]
             */
            addresses?: string[];
            /**
             * Format: uint8
             * @description Of a kernel NSM: its workers, each a thread with sockets of its own, 1 to 16; default: 1. Another number restarts it.
             */
            cores?: number | null;
            /**
             * @description Of a user NSM: the routers for what is in none of its networks, at most one of each IP version.
             * @example [
             *       "10.0.0.1"
             *     ]
             */
            gateways?: string[];
            /** @description What its network stack is. */
            kind?: components["schemas"]["NsmKind"];
            /** @description Of a user NSM: the link or stub of its VNIC, which has the NSM's name, and is made and removed with it. */
            link?: string | null;
            /** @description Of a kernel NSM: connections between its own sockets go through shared memory, not through its network stack. */
            local?: boolean;
            /** @description Its name. */
            name: string;
            /**
             * @description Of a kernel NSM: the network namespace that it is in, by its name (`ip netns`); default: one of its own,
             *     `weir-nsm-NAME`, which is made and removed with it. Of a program: that which it is in; default: the node's.
             */
            namespace?: string | null;
            /** @description Of an shm NSM: what connections to addresses that are not its own fail with. */
            others?: components["schemas"]["Others"];
            /** @description What it may have, for all its applications together: `maxbw`, `conns`. */
            properties?: components["schemas"]["NsmProperties"];
            /**
             * @description Of a program: the program and its arguments. CoreEngine's socket becomes its last argument, its token is in
             *     `WEIR_NSM_TOKEN`.
             */
            run?: string[];
            status?: components["schemas"]["NsmStatus"];
        };
        /** @description What an NSM may have, for all its applications together. */
        NsmProperties: {
            /** @description Most sockets at a time; default: as many as there can be. */
            conns?: number | null;
            /** @description Highest rate of payload, both directions together; default: no limit. */
            maxbw?: string | null;
        };
        /** @description An NSM as it is. */
        NsmStatus: {
            /**
             * Format: uint64
             * @description Queue elements that the NSM gave.
             * @default 0
             */
            answers?: number;
            /**
             * @description Applications whose new sockets go to it.
             * @default 0
             */
            applications?: number;
            /**
             * Format: uint64
             * @description Connections made and accepted.
             * @default 0
             */
            connections?: number;
            /**
             * Format: double
             * @description Seconds of processor time that its process has used.
             * @default null
             */
            "cpu-s"?: number | null;
            /**
             * @description The network namespace that it is in, if its kind has one.
             * @default null
             */
            namespace?: string | null;
            /**
             * Format: uint32
             * @description Its process.
             * @default null
             */
            pid?: number | null;
            /**
             * @description Why not.
             * @default null
             */
            reason?: string | null;
            /**
             * Format: uint64
             * @description Bytes that the NSM received.
             * @default 0
             */
            received?: number;
            /**
             * Format: uint64
             * @description Sockets and connections that were refused, since the NSM had as many as it may.
             * @default 0
             */
            refused?: number;
            /**
             * Format: uint64
             * @description Queue elements given to the NSM.
             * @default 0
             */
            requests?: number;
            /**
             * Format: uint64
             * @description Bytes of memory that its process has in use, those of applications' payload included.
             * @default null
             */
            resident?: number | null;
            /**
             * Format: uint32
             * @description Number of times that this node has restarted it.
             * @default 0
             */
            restarts?: number;
            /**
             * Format: uint64
             * @description Bytes that the NSM was given to send.
             * @default 0
             */
            sent?: number;
            /**
             * @description Its sockets.
             * @default 0
             */
            sockets?: number;
            /**
             * @description Whether it serves.
             * @default unused
             */
            state?: components["schemas"]["State"];
        };
        /** @description A guest that does not exist before it is needed: the copy of another guest, with the VNIC's name. */
        OnDemand: {
            /**
             * Format: uint32
             * @description With `flow`, how many connections may have guests of their own at a time, from 1 to 4096; default: 64.
             */
            guests?: number | null;
            /**
             * @description Time without a frame to or from its VNICs, from 1s to 1day, after which it is removed; default: 1m. The VNIC
             *     waits for the next frame then.
             * @example 30s
             */
            idle?: string | null;
            /**
             * @description The template's interface that the VNIC is; default: its only one, or its only one on the VNIC's link. The others
             *     get VNICs on the links of the template's.
             */
            interface?: string | null;
            /** @description What starts it. */
            on?: components["schemas"]["Trigger"];
            /**
             * @description The guest that it is a copy of. If that stands still as a template, the copy goes on from there; else it boots
             *     that guest's configuration.
             */
            template: string;
            /** @description Values of the configuration's variables instead of the template's. With any, the guest boots. */
            variables?: {
                [key: string]: string;
            };
        };
        /**
         * @description What connections of an shm NSM to addresses that are not its own fail with.
         * @enum {string}
         */
        Others: "unreachable" | "refused";
        /** @description A wire between two switches. */
        Patch: {
            back?: components["schemas"]["PortProperties"] | null;
            /** @description The two stubs or links. */
            between: string[];
            /** @description Properties from the first to the second; also back, unless `back` is given. */
            properties?: components["schemas"]["PortProperties"];
        };
        /** @description Properties of a port: speed, delay, loss, VLAN, protection and so on. */
        PortProperties: {
            /** @description IP addresses of the port, for `ip-nospoof` and for a guest that is started on demand. */
            "allowed-ips"?: string[];
            /** @description CPUs whose lanes may serve the port; default: any. */
            cpus?: number[];
            /**
             * @description Delay of each frame to the port.
             * @default 0us
             */
            delay?: string;
            /** @description Highest rate of broadcast, multicast and unknown unicast frames that the port sends. */
            "flood-limit"?: number | null;
            /**
             * @description Variation of the delay, up and down; frames stay in order.
             * @default 0us
             */
            jitter?: string;
            /** @description Number of lanes that serve the port; default: one for each queue, or all of `cpus`. */
            lanes?: number | null;
            /**
             * @description Share of the frames to the port that is lost.
             * @default 0%
             */
            loss?: string;
            /** @description Highest rate in each direction; default: no limit. */
            maxbw?: string | null;
            /** @description Largest IP packet; default: the link's. */
            mtu?: number | null;
            /**
             * @description Level of the port: a higher level is always served first.
             * @default medium
             * @enum {string}
             */
            priority?: "low" | "medium" | "high";
            /** @description Frames that the port must not send; they are dropped and counted. */
            protection?: ("mac-nospoof" | "ip-nospoof" | "dhcp-nospoof" | "restricted")[];
            /**
             * @description Whether the guest may settle flows, whose packets the kernel then passes on by itself; on both VNICs between which they go.
             * @default off
             * @enum {string}
             */
            settle?: "on" | "off";
            /**
             * @description Weight among the ports of the same domain and level.
             * @default 100
             */
            share?: number;
            /** @description VLAN of an access port: its frames are untagged and belong to this VLAN. */
            vlan?: number | null;
        };
        /**
         * @description Counters of a link's interface, of a VNIC or of an end of a wire's patch, since it was attached
         *     to the switch that runs.
         *
         *     "Received" is from its own point of view: from the wire for an interface, from the switch for a
         *     VNIC or a patch.
         */
        PortStats: {
            /**
             * Format: uint64
             * @description Frames that the switch took from the port while polling it.
             */
            "by-poll": number;
            /**
             * Format: uint64
             * @description Frames that the switch took from the port first thing after a wake-up.
             */
            "by-wakeup": number;
            /**
             * Format: uint64
             * @description Chains of 10 to 50 frames that the switch took from the port at once.
             */
            "chains-10-to-50": number;
            /**
             * Format: uint64
             * @description Chains of more than 50 frames that the switch took from the port at once.
             */
            "chains-over-50": number;
            /**
             * Format: uint64
             * @description Chains of fewer than 10 frames that the switch took from the port at once.
             */
            "chains-under-10": number;
            /** @description Frames dropped, by reason; none that never happened. */
            drops: {
                [key: string]: number;
            };
            /**
             * Format: uint32
             * @description The lane that counted it, if it is one's counters alone.
             */
            lane?: number | null;
            /** @description The link. */
            link: string;
            /** @description The interface or VNIC; for a patch WIRE/PATCH:a or b, as ‘between’ names its ends. */
            name: string;
            /**
             * Format: uint64
             * @description Bytes received, from the Ethernet header on.
             */
            "rx-bytes": number;
            /**
             * Format: uint64
             * @description Frames received.
             */
            "rx-frames": number;
            /**
             * Format: uint64
             * @description Bytes sent, from the Ethernet header on.
             */
            "tx-bytes": number;
            /**
             * Format: uint64
             * @description Frames sent.
             */
            "tx-frames": number;
            /**
             * Format: uint64
             * @description Times that the port went from sleeping to being polled.
             */
            wakeups: number;
        };
        /** @description The confirmation that everything is to be removed. */
        Purge: {
            /** @description Has to be true. */
            confirm?: boolean;
        };
        /** @description Another name for a guest. */
        Rename: {
            /** @description The name. */
            name: string;
        };
        /**
         * @description When a guest that ended is restarted.
         * @enum {string}
         */
        Restart: "always" | "on-failure" | "never";
        /** @description A saved guest that is to go on. */
        Restore: {
            /** @description The file, by its path on the node's host. */
            file: string;
            /** @description Another name for the guest. */
            name?: string | null;
        };
        /** @description Where a guest is saved to. */
        Save: {
            /** @description The file, by its path on the node's host. An existing one is replaced. */
            file: string;
            /** @description Whether the guest goes on. Otherwise it is stopped, and can be restored as if nothing had happened but time. */
            keep?: boolean;
        };
        /** @description A file that a guest was saved to. */
        Saved: {
            /**
             * Format: uint64
             * @description Its length in bytes.
             */
            bytes: number;
            /** @description Its path. */
            file: string;
        };
        /** @description A flow of which a guest said that it is settled, in one direction. */
        SettledFlow: {
            /**
             * Format: uint64
             * @description Their bytes.
             */
            bytes: number;
            /**
             * @description The receiver's.
             * @example 192.0.2.1:80
             */
            destination: string;
            /**
             * Format: uint64
             * @description Milliseconds since the last one.
             */
            "idle-ms": number;
            /** @description The link by whose interface they come; none if the flow is not settled. */
            link?: string | null;
            /**
             * Format: uint64
             * @description Packets that the kernel passed on.
             */
            packets: number;
            /** @description Why the flow is not settled, and all its packets go to the guest; none if it is settled. */
            reason?: string | null;
            /**
             * @description The sender's address and port when they come.
             * @example 10.0.0.2:40000
             */
            source: string;
            /** @description The receiver's. */
            "to-destination": string;
            /** @description The link by whose interface they leave. */
            "to-link"?: string | null;
            /** @description The sender's address and port when they leave. */
            "to-source": string;
            /** @description The guest's VNIC by which the guest sends them on. */
            "to-vnic": string;
            /** @description `tcp` or `udp`. */
            transport: string;
            /** @description The guest's VNIC by which its packets come. */
            vnic: string;
        };
        /** @description A socket of an application. */
        Socket: {
            /** @description The address that it was bound to, if the application bound it. */
            bound?: string | null;
            /** @description Its address, if its NSM has told it. */
            local?: string | null;
            /** @description The NSM that serves it. */
            nsm: string;
            /**
             * Format: uint32
             * @description Its number in the application.
             */
            number: number;
            /** @description The address of its peer. */
            peer?: string | null;
            /**
             * Format: uint64
             * @description Bytes received.
             */
            received: number;
            /**
             * Format: uint32
             * @description Segments that were sent again.
             */
            retransmits?: number | null;
            /**
             * Format: double
             * @description Milliseconds of the smoothed round-trip time of its connection, if its NSM knows it.
             */
            "rtt-ms"?: number | null;
            /**
             * Format: double
             * @description Milliseconds of the round-trip time's variance.
             */
            "rtt-variance-ms"?: number | null;
            /**
             * Format: uint64
             * @description Bytes sent.
             */
            sent: number;
            /**
             * Format: uint32
             * @description How many processes, beside the first, it was given to by fork, exec or a message.
             */
            shares: number;
            /** @description What it does. */
            state: components["schemas"]["SocketState"];
            /** @description Its transport protocol. */
            transport: components["schemas"]["SocketTransport"];
        };
        /** @description A socket call that reached an NSM, or what an NSM answered or told. */
        SocketCall: {
            /** @description The address that it names. */
            address?: string | null;
            /** @description Whether it comes from the NSM; else from the application. */
            answer: boolean;
            /**
             * Format: uint32
             * @description Bytes of payload.
             */
            bytes?: number | null;
            /** @description The error of an answer. */
            error?: string | null;
            /**
             * Format: uint64
             * @description Its number, from 1 on.
             */
            number: number;
            /** @description What was asked, answered or told: `connect`, `sent`, `data`. */
            operation: string;
            /** @description A socket option, as level and name. */
            option?: [
                number,
                number
            ] | null;
            /**
             * Format: uint32
             * @description The socket's number in the application.
             */
            socket: number;
            /** @description When it passed CoreEngine, in UTC. */
            time: string;
            /**
             * Format: double
             * @description Microseconds from the request to this answer.
             */
            "took-us"?: number | null;
        };
        /**
         * @description What a socket does.
         * @enum {string}
         */
        SocketState: "open" | "listening" | "failed" | "closing";
        /** @description What the sockets of an application did. */
        SocketTrace: {
            /**
             * Format: uint64
             * @description Records before these that were dropped, since nobody asked for them in time.
             */
            lost: number;
            /**
             * Format: uint64
             * @description The number of the last record, to ask for the next ones with.
             */
            next: number;
            /** @description The records, in order; at most 256. */
            records: components["schemas"]["SocketCall"][];
        };
        /**
         * @description The transport protocol of a socket.
         * @enum {string}
         */
        SocketTransport: "tcp" | "udp";
        /**
         * @description Whether something does what it is there for.
         * @enum {string}
         */
        State: "up" | "down" | "unused" | "waiting";
        /**
         * @description A switch without a NIC, as it is written: all in one table, where an unknown key is an error
         *     with its line.
         */
        Stub: {
            /**
             * Format: uint32
             * @description Seconds after which an address that was not seen again is removed.
             * @default null
             */
            aging?: number | null;
            /** @description The lookup function: `learning`, `hash`, `flow-table`, or a Click configuration as `{"click": {"config": …}}`. */
            lookup?: ("learning" | "hash" | "flow-table") | Record<string, unknown> | null;
            /**
             * Format: uint32
             * @description Most addresses that are learned behind one port.
             * @default null
             */
            "mac-limit"?: number | null;
            /**
             * Format: uint16
             * @description Largest IP packet, in bytes; 1500 if none is given.
             * @default null
             */
            mtu?: number | null;
            /**
             * @description Highest rate of each port without a `maxbw` of its own.
             * @default null
             */
            speed?: string | null;
        };
        /**
         * @description A switch without a NIC, as it is written: all in one table, where an unknown key is an error
         *     with its line.
         */
        StubObject: {
            /**
             * Format: uint32
             * @description Seconds after which an address that was not seen again is removed.
             * @default null
             */
            aging?: number | null;
            /** @description The lookup function: `learning`, `hash`, `flow-table`, or a Click configuration as `{"click": {"config": …}}`. */
            lookup?: ("learning" | "hash" | "flow-table") | Record<string, unknown> | null;
            /**
             * Format: uint32
             * @description Most addresses that are learned behind one port.
             * @default null
             */
            "mac-limit"?: number | null;
            /**
             * Format: uint16
             * @description Largest IP packet, in bytes; 1500 if none is given.
             * @default null
             */
            mtu?: number | null;
            /** @description Its name. */
            name: string;
            /**
             * @description Highest rate of each port without a `maxbw` of its own.
             * @default null
             */
            speed?: string | null;
            status?: components["schemas"]["LinkStatus"];
        };
        /** @description How the switch of a link or stub works. It is called as its link. */
        SwitchFunctionObject: {
            /**
             * Format: uint32
             * @description Seconds after which an address that was not seen again is removed.
             * @default 300
             */
            aging?: number;
            /**
             * @description With a flow table, the action for frames without an entry, in ovs-ofctl's words: `normal` (by
             *     addresses), `drop`, or `output:VNIC`.
             * @default null
             */
            default?: string | null;
            /**
             * @description The name of a Click configuration in messages. It is not kept.
             * @default null
             */
            file?: string | null;
            /** @description The lookup function: `learning`, `hash`, `flow-table`, or a Click configuration as `{"click": {"config": …}}`. */
            lookup?: ("learning" | "hash" | "flow-table") | Record<string, unknown>;
            /**
             * Format: uint32
             * @description Most addresses that are learned behind one port.
             * @default 1024
             */
            "mac-limit"?: number;
            /** @description Its name. */
            name: string;
            /**
             * @description Highest rate of each port without a `maxbw` of its own.
             * @default null
             */
            speed?: string | null;
            status?: components["schemas"]["SwitchStatus"];
        };
        /** @description Properties of a switch. */
        SwitchProperties: {
            /**
             * @description Seconds after which an unused address is removed.
             * @default 300
             */
            aging?: number;
            /** @description The lookup function: `learning`, `hash`, `flow-table`, or a Click configuration as `{"click": {"config": …}}`. */
            lookup?: ("learning" | "hash" | "flow-table") | Record<string, unknown>;
            /**
             * @description Highest number of addresses learned for one port.
             * @default 1024
             */
            "mac-limit"?: number;
            /** @description Highest rate in each direction of each port without a `maxbw` of its own. */
            speed?: string | null;
        };
        /** @description The switch of a link as it is. */
        SwitchStatus: {
            /**
             * @description In the answer to a new Click configuration: names in it that no port of the link has yet.
             * @default []
             */
            missing?: string[];
        };
        /** @description A switch's flow table. */
        Table: {
            /**
             * @description The action for frames without an entry, in ovs-ofctl's words: `normal` (by addresses), `drop`
             *     or `output:VNIC`; default: `normal`.
             */
            default?: string | null;
            /**
             * @description Flows, in ovs-ofctl's words, and the VNIC that each goes to, or the switch's own name for
             *     its NIC.
             */
            flows?: {
                [key: string]: string;
            };
        };
        /**
         * @description What kind of thing an event is of.
         * @enum {string}
         */
        Topic: "node" | "switch" | "store" | "link" | "stub" | "vnic" | "patch" | "flow" | "guest" | "wire" | "namespace" | "core-engine" | "nsm" | "application";
        /**
         * @description What starts a guest.
         * @enum {string}
         */
        Trigger: "first-packet" | "flow";
        /** @description A network with other hosts by VXLAN (RFC 7348), as a link reaches it. */
        Tunnel: {
            /** @description This host's address; without one, any. */
            local?: string | null;
            /** @description Ethernet addresses that are known to be behind them; others are learned. */
            neighbors?: components["schemas"]["Neighbor"][];
            /**
             * Format: uint16
             * @description The UDP port, here and there; without one, 4789.
             */
            port?: number | null;
            /**
             * @description The other hosts' addresses, all IPv4 or all IPv6. There may be none yet.
             * @example [
             *       "192.0.2.2"
             *     ]
             */
            remotes: string[];
            /**
             * Format: uint32
             * @description The network's number, 24 bits.
             */
            vni: number;
        };
        /** @description A guest that an earlier node started and of which no record is left. */
        UnknownGuest: {
            /** @description The name that it was started with. */
            name: string;
            /**
             * Format: uint32
             * @description Its process.
             */
            pid: number;
            /**
             * Format: uint64
             * @description When that was started, in clock ticks since the boot of the machine.
             */
            started: number;
        };
        /**
         * @description A virtual NIC. It is in a namespace, or the host's own, or a guest's that names it, or a
         *     program's that speaks vhost-user, or a user NSM's, or starts a guest when it is needed.
         */
        Vnic: {
            /**
             * @description The IP addresses of its interface, with their prefixes.
             * @example [
             *       "10.0.0.2/24"
             *     ]
             */
            addresses?: string[];
            guest?: components["schemas"]["OnDemand"] | null;
            /** @description Whether it is in the host's namespace. */
            host?: boolean;
            /** @description The interface's name in the namespace or on the host; default: the VNIC's. */
            interface?: string | null;
            /** @description The stub or link that it is on. */
            link: string;
            /**
             * @description Its Ethernet address; default: in a wire, derived from the names, else random.
             * @example 02:00:00:00:00:01
             */
            mac?: string | null;
            /** @description The network namespace that it is in: a name (`ip netns`), or a path. */
            namespace?: string | null;
            /** @description The user NSM that has it: it is made with the NSM. */
            nsm?: string | null;
            /** @description Speed, delay, loss, VLAN, protection and so on. */
            properties?: components["schemas"]["PortProperties"];
            /** @description The socket where a vhost-user frontend connects. */
            "vhost-user"?: string | null;
        };
        /**
         * @description A virtual NIC. It is in a namespace, or the host's own, or a guest's that names it, or a
         *     program's that speaks vhost-user, or a user NSM's, or starts a guest when it is needed.
         */
        VnicObject: {
            /**
             * @description The IP addresses of its interface, with their prefixes.
             * @example [
             *       "10.0.0.2/24"
             *     ]
             */
            addresses?: string[];
            guest?: components["schemas"]["OnDemand"] | null;
            /** @description Whether it is in the host's namespace. */
            host?: boolean;
            /** @description The interface's name in the namespace or on the host; default: the VNIC's. */
            interface?: string | null;
            /** @description The stub or link that it is on. */
            link: string;
            /**
             * @description Its Ethernet address; default: in a wire, derived from the names, else random.
             * @example 02:00:00:00:00:01
             */
            mac?: string | null;
            /** @description Its name. */
            name: string;
            /** @description The network namespace that it is in: a name (`ip netns`), or a path. */
            namespace?: string | null;
            /** @description The user NSM that has it: it is made with the NSM. */
            nsm?: string | null;
            /** @description Speed, delay, loss, VLAN, protection and so on. */
            properties?: components["schemas"]["PortProperties"];
            status?: components["schemas"]["VnicStatus"];
            /** @description The socket where a vhost-user frontend connects. */
            "vhost-user"?: string | null;
        };
        /** @description A VNIC as it is. */
        VnicStatus: {
            /**
             * @description The guest that has it.
             * @default null
             */
            guest?: string | null;
            /**
             * @description The name of its interface in the namespace or on the host.
             * @default null
             */
            interface?: string | null;
            /**
             * Format: uint16
             * @description Largest IP packet, in bytes.
             * @default 0
             */
            mtu?: number;
            /**
             * @description Why not.
             * @default null
             */
            reason?: string | null;
            /**
             * @description Whether it works.
             * @default unused
             */
            state?: components["schemas"]["State"];
        };
        /** @description The steps that applying a wire took, or would take. */
        WireChange: {
            /** @description The steps in their order, a line each: `+` makes a part, `-` removes it, `~` changes it. */
            steps: string[];
            /** @description What the wire's author should know. */
            warnings?: string[];
        };
        /** @description State of a guest of a wire. */
        WireGuest: {
            /** @description Its name. */
            name: string;
            /** @description How it ended. */
            reason?: string | null;
            state?: components["schemas"]["GuestState"] | null;
        };
        /**
         * @description A virtual wire: a whole network. Each part has a name of its own among those of its kind.
         *
         *     As text it is TOML:
         *
         *     ```toml
         *     wire = "two-subnets"
         *
         *     [stub.office]
         *     speed = "1G"
         *
         *     [namespace.desk]
         *     routes = ["default via 10.0.1.1"]
         *
         *     [vnic.desk0]
         *     link = "office"
         *     namespace = "desk"
         *     addresses = ["10.0.1.2/24"]
         *     properties = { maxbw = "100M", delay = "2ms" }
         *
         *     [guest.router]
         *     file = "router.click"
         *     interfaces = { inside = "router0", outside = "router1" }
         *     ```
         */
        WireObject: {
            /** @description Programs that the node runs, whose sockets NSMs serve. */
            app?: {
                [key: string]: components["schemas"]["Application"];
            };
            /** @description A description for people. */
            description?: string;
            /** @description Stubs and links of the node that it uses, and neither makes nor removes. */
            existing?: string[];
            /** @description Traffic classes on links and stubs. */
            flow?: {
                [key: string]: components["schemas"]["Flow"];
            };
            /** @description Network functions. */
            guest?: {
                [key: string]: components["schemas"]["Guest"];
            };
            /** @description Switches with a NIC: interfaces of the host that are attached. */
            link?: {
                [key: string]: components["schemas"]["Link"];
            };
            /** @description Its name. */
            name: string;
            /** @description Hosts that are network namespaces. */
            namespace?: {
                [key: string]: components["schemas"]["Namespace"];
            };
            /** @description Network stack modules. */
            nsm?: {
                [key: string]: components["schemas"]["Nsm"];
            };
            /** @description Wires between switches. */
            patch?: {
                [key: string]: components["schemas"]["Patch"];
            };
            status?: components["schemas"]["WireStatus"];
            /** @description Switches without a NIC, and their properties. */
            stub?: {
                [key: string]: components["schemas"]["Stub"];
            };
            /** @description Flow tables of switches that work by one, by the switches' names. */
            table?: {
                [key: string]: components["schemas"]["Table"];
            };
            /** @description Virtual NICs. */
            vnic?: {
                [key: string]: components["schemas"]["Vnic"];
            };
            /** @description Its name. */
            wire: string;
        };
        /** @description State of an NSM or an application of a wire. */
        WireProcess: {
            /** @description Its name. */
            name: string;
            /** @description Why it is down. */
            reason?: string | null;
            state?: components["schemas"]["State"] | null;
        };
        /** @description A wire as it is. */
        WireStatus: {
            /**
             * @description The state of each of its applications.
             * @default []
             */
            applications?: components["schemas"]["WireProcess"][];
            /**
             * @description Whether it is being changed.
             * @default false
             */
            changing?: boolean;
            /**
             * @description The state of each of its guests.
             * @default []
             */
            guests?: components["schemas"]["WireGuest"][];
            /**
             * @description The state of each of its NSMs.
             * @default []
             */
            nsms?: components["schemas"]["WireProcess"][];
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    "list-applications": {
        parameters: {
            query?: {
                /** @description Names and patterns such as `fw-*`, separated by commas; without any, all are listed. */
                name?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApplicationObject"][];
                };
            };
        };
    };
    "admit-application": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Admission"];
            };
        };
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Admitted"];
                };
            };
        };
    };
    "show-application": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The application's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApplicationObject"];
                };
            };
        };
    };
    "put-application": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The application's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ApplicationObject"] | {
                    /**
                     * @description The folder that the program starts in; default: the root folder. In a wire's file it is relative to the wire's
                     *     own folder.
                     */
                    directory?: string | null;
                    /** @description Variables of the program's environment, besides `PATH`, and `HOME`, `USER`, `LOGNAME` and `SHELL` of its user. */
                    environment?: {
                        [key: string]: string;
                    };
                    /** @description How the program's socket calls come to the NSM. */
                    intercept?: components["schemas"]["Intercept"];
                    /** @description Its name. */
                    name?: string;
                    /** @description The NSM that its new sockets go to. */
                    nsm: string;
                    /** @description What it may have: `maxbw`, `conns`, `weight`. */
                    properties?: components["schemas"]["ApplicationProperties"];
                    /** @description When the node restarts the program that it runs. */
                    restart?: components["schemas"]["Restart"];
                    /**
                     * @description The program that the node runs, and its arguments, as a shell splits them; none: the program was started by
                     *     `weir sock run`.
                     * @example [
                     *       "nginx",
                     *       "-g",
                     *       "daemon off;"
                     *     ]
                     */
                    run?: string[];
                    status?: components["schemas"]["ApplicationStatus"];
                    /** @description The user that the program runs as, with the user's groups; default: the node's. */
                    user?: string | null;
                };
            };
        };
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApplicationObject"];
                };
            };
        };
    };
    "delete-application": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The application's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is done. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    "patch-application": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The application's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": Record<string, unknown>;
            };
        };
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApplicationObject"];
                };
            };
        };
    };
    "list-sockets": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The application's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Socket"][];
                };
            };
        };
    };
    "trace-sockets": {
        parameters: {
            query?: {
                /** @description The number of the last record that is known; 0: none. */
                after?: number;
            };
            header?: never;
            path: {
                /** @description The application's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SocketTrace"];
                };
            };
        };
    };
    "list-crashes": {
        parameters: {
            query?: {
                /** @description Names and patterns of guests such as `fw-*`, separated by commas; without any, all guests. */
                name?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CrashReport"][];
                };
            };
        };
    };
    "show-crash": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The report's number, or a guest's name or pattern. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CrashReport"];
                };
            };
        };
    };
    "remove-crashes": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The report's number, or a guest's name or pattern. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is done. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    "list-events": {
        parameters: {
            query?: {
                /** @description Go on with events to come, as server-sent events. */
                follow?: boolean;
                /** @description Names and patterns such as `fw-*` of things, separated by commas; without any, all events. */
                name?: string | null;
                /** @description Only events that are not older: so long ago, as in 10m, or a time, as in 2030-01-31T12:00:00Z. */
                since?: string | null;
            };
            header?: {
                /** @description The number of the last event that the client has had. */
                "Last-Event-ID"?: number;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Event"][];
                    "text/event-stream": {
                        data: string;
                        id: string;
                    };
                };
            };
        };
    };
    "list-flow-stats": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FlowStats"][];
                };
            };
        };
    };
    "show-flow-stats": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The flow's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FlowStats"];
                };
            };
        };
    };
    "list-flows": {
        parameters: {
            query?: {
                /** @description Names and patterns such as `fw-*`, separated by commas; without any, all are listed. */
                name?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FlowObject"][];
                };
            };
        };
    };
    "create-flow": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["FlowObject"];
            };
        };
        responses: {
            /** @description It is made. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FlowObject"];
                };
            };
        };
    };
    "show-flow": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The flow's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FlowObject"];
                };
            };
        };
    };
    "put-flow": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The flow's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["FlowObject"] | {
                    /** @description Which frames belong to it, by flowadm's names: `local_ip`, `transport`, `local_port` … */
                    attributes: components["schemas"]["FlowAttributes"];
                    /** @description The link, stub or VNIC that it is on. */
                    link: string;
                    /** @description Its name. */
                    name?: string;
                    /** @description Its limit and priority. */
                    properties?: components["schemas"]["FlowProperties"];
                    status?: components["schemas"]["FlowStatus"];
                };
            };
        };
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FlowObject"];
                };
            };
        };
    };
    "delete-flow": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The flow's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is done. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    "patch-flow": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The flow's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": Record<string, unknown>;
            };
        };
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FlowObject"];
                };
            };
        };
    };
    "act-on-guests": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["GuestAction"];
            };
        };
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GuestOutcome"][];
                };
            };
        };
    };
    "list-guest-logs": {
        parameters: {
            query?: {
                /** @description Go on with lines to come, as server-sent events. */
                follow?: boolean;
                /** @description Names and patterns of guests such as `fw-*`, separated by commas; without any, all guests. */
                name?: string | null;
                /** @description Only lines that are not older: so long ago, as in 10m, or a time, as in 2030-01-31T12:00:00Z. */
                since?: string | null;
                /** @description Only the last lines of each guest, so many. */
                tail?: number | null;
            };
            header?: {
                /** @description The number of the last event that the client has had. */
                "Last-Event-ID"?: number;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LogLine"][];
                    "text/event-stream": {
                        data: string;
                        id: string;
                    };
                };
            };
        };
    };
    "restore-guest": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Restore"];
            };
        };
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GuestObject"];
                };
            };
        };
    };
    "create-guests": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["GuestSeries"];
            };
        };
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GuestOutcome"][];
                };
            };
        };
    };
    "list-guests": {
        parameters: {
            query?: {
                /** @description Names and patterns such as `fw-*`, separated by commas; without any, all are listed. */
                name?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GuestObject"][];
                };
            };
        };
    };
    "create-guest": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["GuestObject"];
            };
        };
        responses: {
            /** @description It is made. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GuestObject"];
                };
            };
        };
    };
    "show-guest": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The guest's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GuestObject"];
                };
            };
        };
    };
    "put-guest": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The guest's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["GuestObject"] | {
                    /** @description The configuration, in Click's language. A list of guests leaves it out. */
                    config?: string;
                    /** @description Configurations that it runs beside that one, by their names. The elements of one are `NAME/ELEMENT`. */
                    configurations?: {
                        [key: string]: components["schemas"]["Configuration"];
                    };
                    /**
                     * Format: double
                     * @description Processors of the host that its process may use, as in 0.5; default: all.
                     */
                    "cpu-max"?: number | null;
                    /** @description Virtual CPUs; default: 1. */
                    cpus?: number | null;
                    /**
                     * @description The file of its configuration. In a wire's file it is read from there, relative to the wire's
                     *     own folder, unless it is a function's name; in the API it is the configuration's name in messages, and `config` is
                     *     needed beside it.
                     */
                    file?: string | null;
                    /**
                     * @description Checks of its health, as in `c.count > 0 every 5s failures 3`: a handler is read now and then, and the guest is
                     *     unhealthy after so many failures in a row. One that may be restarted is restarted then.
                     */
                    health?: string[];
                    /**
                     * @description By the names of its interfaces: the VNIC of each, or a link for which a VNIC is made that is
                     *     removed with the guest.
                     */
                    interfaces?: {
                        [key: string]: string;
                    };
                    /** @description The wall around it. */
                    isolation?: components["schemas"]["Isolation"];
                    /**
                     * @description Private memory, in bytes, or with K, M or G; default: 4 MiB.
                     * @example 4M
                     */
                    memory?: string | number | null;
                    /**
                     * @description Memory that its process may use, its private memory included; default: no limit.
                     * @example 4M
                     */
                    "memory-max"?: string | number | null;
                    /** @description Its name. */
                    name?: string;
                    /** @description The NSM that serves its sockets, of SocketServer and SocketClient; default: it has none. */
                    nsm?: string | null;
                    /** @description CPUs of the host that those are tied to, one each in turn; without any, they run on all. */
                    pin?: number[];
                    /** @description When it is restarted; default: `on-failure`. */
                    restart?: components["schemas"]["Restart"];
                    /**
                     * Format: uint32
                     * @description Slots of each of its rings, a power of two from 64 to 2048; default: 256.
                     */
                    "ring-slots"?: number | null;
                    status?: components["schemas"]["GuestStatus"];
                    /**
                     * @description Values of the configuration's variables: `{"RATE": "1000"}` is what `RATE=1000` is to `weir click`. Each
                     *     overrides a `define` of the configuration. In a wire's file, `parameters` says the same of a function.
                     */
                    variables?: {
                        [key: string]: string;
                    };
                };
            };
        };
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GuestObject"];
                };
            };
        };
    };
    "delete-guest": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The guest's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is done. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    "patch-guest": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The guest's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": Record<string, unknown>;
            };
        };
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GuestObject"];
                };
            };
        };
    };
    "clone-guest": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The guest's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Clones"];
            };
        };
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GuestOutcome"][];
                };
            };
        };
    };
    "show-configuration": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The guest's name. */
                name: string;
                /** @description The configuration's name. */
                configuration: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Configuration"];
                };
            };
        };
    };
    "install-configuration": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The guest's name. */
                name: string;
                /** @description The configuration's name. */
                configuration: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Configuration"];
            };
        };
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GuestObject"];
                };
            };
        };
    };
    "uninstall-configuration": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The guest's name. */
                name: string;
                /** @description The configuration's name. */
                configuration: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is done. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    "show-guest-log": {
        parameters: {
            query?: {
                /** @description Go on with lines to come, as server-sent events. */
                follow?: boolean;
                /** @description Only lines of the guest's last run: since it was started last. */
                run?: boolean;
                /** @description Only lines that are not older: so long ago, as in 10m, or a time, as in 2030-01-31T12:00:00Z. */
                since?: string | null;
                /** @description Only the last lines of each guest, so many. */
                tail?: number | null;
            };
            header?: {
                /** @description The number of the last event that the client has had. */
                "Last-Event-ID"?: number;
            };
            path: {
                /** @description The guest's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LogLine"][];
                    "text/event-stream": {
                        data: string;
                        id: string;
                    };
                };
            };
        };
    };
    "migrate-guest": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The guest's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Migrate"];
            };
        };
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Migrated"];
                };
            };
        };
    };
    "read-handler": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The guest's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["HandlerRead"];
            };
        };
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HandlerValue"];
                };
            };
        };
    };
    "rename-guest": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The guest's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Rename"];
            };
        };
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GuestObject"];
                };
            };
        };
    };
    "save-guest": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The guest's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Save"];
            };
        };
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Saved"];
                };
            };
        };
    };
    "write-handler": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The guest's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["HandlerWrite"];
            };
        };
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HandlerValue"];
                };
            };
        };
    };
    "list-lanes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LaneStats"][];
                };
            };
        };
    };
    "list-links": {
        parameters: {
            query?: {
                /** @description Names and patterns such as `fw-*`, separated by commas; without any, all are listed. */
                name?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LinkObject"][];
                };
            };
        };
    };
    "create-link": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["LinkObject"];
            };
        };
        responses: {
            /** @description It is made. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LinkObject"];
                };
            };
        };
    };
    "show-link": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The link's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LinkObject"];
                };
            };
        };
    };
    "put-link": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The link's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["LinkObject"] | {
                    /** @description The host's interface; without one, that of the link's name. With `vxlan` there is none. */
                    device?: string;
                    /** @description How the interface is attached. */
                    mode?: components["schemas"]["Mode"];
                    /** @description Its name. */
                    name?: string;
                    /** @description Properties of the interface's port: `lanes`, `maxbw` and so on. */
                    port?: components["schemas"]["PortProperties"];
                    /** @description Properties of the switch. */
                    properties?: components["schemas"]["SwitchProperties"];
                    status?: components["schemas"]["LinkStatus"];
                    vxlan?: components["schemas"]["Tunnel"] | null;
                };
            };
        };
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LinkObject"];
                };
            };
        };
    };
    "delete-link": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The link's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is done. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    "patch-link": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The link's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": Record<string, unknown>;
            };
        };
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LinkObject"];
                };
            };
        };
    };
    "show-node": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NodeStatus"];
                };
            };
        };
    };
    "purge-node": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Purge"];
            };
        };
        responses: {
            /** @description It is done. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    "end-unknown": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UnknownGuest"][];
                };
            };
        };
    };
    "forget-damaged": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is done. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    "list-nsms": {
        parameters: {
            query?: {
                /** @description Names and patterns such as `fw-*`, separated by commas; without any, all are listed. */
                name?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NsmObject"][];
                };
            };
        };
    };
    "create-nsm": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NsmObject"];
            };
        };
        responses: {
            /** @description It is made. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NsmObject"];
                };
            };
        };
    };
    "show-nsm": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The NSM's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NsmObject"];
                };
            };
        };
    };
    "put-nsm": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The NSM's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NsmObject"] | {
                    /**
                     * @description Of a user NSM: its IP addresses, with their prefixes. Of an shm NSM: the addresses that its applications have besides the
                     *     loopback's.
                     * @example [
                     *       "10.0.0.2/24"
                     *     ]
                     */
                    addresses?: string[];
                    /**
                     * Format: uint8
                     * @description Of a kernel NSM: its workers, each a thread with sockets of its own, 1 to 16; default: 1. Another number restarts it.
                     */
                    cores?: number | null;
                    /**
                     * @description Of a user NSM: the routers for what is in none of its networks, at most one of each IP version.
                     * @example [
                     *       "10.0.0.1"
                     *     ]
                     */
                    gateways?: string[];
                    /** @description What its network stack is. */
                    kind?: components["schemas"]["NsmKind"];
                    /** @description Of a user NSM: the link or stub of its VNIC, which has the NSM's name, and is made and removed with it. */
                    link?: string | null;
                    /** @description Of a kernel NSM: connections between its own sockets go through shared memory, not through its network stack. */
                    local?: boolean;
                    /** @description Its name. */
                    name?: string;
                    /**
                     * @description Of a kernel NSM: the network namespace that it is in, by its name (`ip netns`); default: one of its own,
                     *     `weir-nsm-NAME`, which is made and removed with it. Of a program: that which it is in; default: the node's.
                     */
                    namespace?: string | null;
                    /** @description Of an shm NSM: what connections to addresses that are not its own fail with. */
                    others?: components["schemas"]["Others"];
                    /** @description What it may have, for all its applications together: `maxbw`, `conns`. */
                    properties?: components["schemas"]["NsmProperties"];
                    /**
                     * @description Of a program: the program and its arguments. CoreEngine's socket becomes its last argument, its token is in
                     *     `WEIR_NSM_TOKEN`.
                     */
                    run?: string[];
                    status?: components["schemas"]["NsmStatus"];
                };
            };
        };
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NsmObject"];
                };
            };
        };
    };
    "delete-nsm": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The NSM's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is done. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    "patch-nsm": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The NSM's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": Record<string, unknown>;
            };
        };
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NsmObject"];
                };
            };
        };
    };
    "list-settled-flows": {
        parameters: {
            query?: {
                /** @description Names and patterns such as `fw-*`, separated by commas; without any, all are listed. */
                name?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SettledFlow"][];
                };
            };
        };
    };
    "list-stats": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PortStats"][];
                };
            };
        };
    };
    "show-stats": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The link's or VNIC's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PortStats"];
                };
            };
        };
    };
    "show-lane-stats": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The link's or VNIC's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PortStats"][];
                };
            };
        };
    };
    "list-stubs": {
        parameters: {
            query?: {
                /** @description Names and patterns such as `fw-*`, separated by commas; without any, all are listed. */
                name?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StubObject"][];
                };
            };
        };
    };
    "create-stub": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["StubObject"];
            };
        };
        responses: {
            /** @description It is made. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StubObject"];
                };
            };
        };
    };
    "show-stub": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The stub's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StubObject"];
                };
            };
        };
    };
    "put-stub": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The stub's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["StubObject"] | {
                    /**
                     * Format: uint32
                     * @description Seconds after which an address that was not seen again is removed.
                     * @default null
                     */
                    aging?: number | null;
                    /** @description The lookup function: `learning`, `hash`, `flow-table`, or a Click configuration as `{"click": {"config": …}}`. */
                    lookup?: ("learning" | "hash" | "flow-table") | Record<string, unknown> | null;
                    /**
                     * Format: uint32
                     * @description Most addresses that are learned behind one port.
                     * @default null
                     */
                    "mac-limit"?: number | null;
                    /**
                     * Format: uint16
                     * @description Largest IP packet, in bytes; 1500 if none is given.
                     * @default null
                     */
                    mtu?: number | null;
                    /** @description Its name. */
                    name?: string;
                    /**
                     * @description Highest rate of each port without a `maxbw` of its own.
                     * @default null
                     */
                    speed?: string | null;
                    status?: components["schemas"]["LinkStatus"];
                };
            };
        };
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StubObject"];
                };
            };
        };
    };
    "delete-stub": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The stub's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is done. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    "patch-stub": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The stub's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": Record<string, unknown>;
            };
        };
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StubObject"];
                };
            };
        };
    };
    "list-switches": {
        parameters: {
            query?: {
                /** @description Names and patterns such as `fw-*`, separated by commas; without any, all are listed. */
                name?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SwitchFunctionObject"][];
                };
            };
        };
    };
    "show-switch": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The link's or stub's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SwitchFunctionObject"];
                };
            };
        };
    };
    "put-switch": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The link's or stub's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SwitchFunctionObject"] | {
                    /**
                     * Format: uint32
                     * @description Seconds after which an address that was not seen again is removed.
                     * @default 300
                     */
                    aging?: number;
                    /**
                     * @description With a flow table, the action for frames without an entry, in ovs-ofctl's words: `normal` (by
                     *     addresses), `drop`, or `output:VNIC`.
                     * @default null
                     */
                    default?: string | null;
                    /**
                     * @description The name of a Click configuration in messages. It is not kept.
                     * @default null
                     */
                    file?: string | null;
                    /** @description The lookup function: `learning`, `hash`, `flow-table`, or a Click configuration as `{"click": {"config": …}}`. */
                    lookup?: ("learning" | "hash" | "flow-table") | Record<string, unknown>;
                    /**
                     * Format: uint32
                     * @description Most addresses that are learned behind one port.
                     * @default 1024
                     */
                    "mac-limit"?: number;
                    /** @description Its name. */
                    name?: string;
                    /**
                     * @description Highest rate of each port without a `maxbw` of its own.
                     * @default null
                     */
                    speed?: string | null;
                    status?: components["schemas"]["SwitchStatus"];
                };
            };
        };
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SwitchFunctionObject"];
                };
            };
        };
    };
    "patch-switch": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The link's or stub's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": Record<string, unknown>;
            };
        };
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SwitchFunctionObject"];
                };
            };
        };
    };
    "list-entries": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The link's or stub's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Entry"][];
                };
            };
        };
    };
    "add-entry": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The link's or stub's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Entry"];
            };
        };
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Entry"];
                };
            };
        };
    };
    "remove-entry": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The link's or stub's name. */
                name: string;
                /** @description The flow, as the list of entries has it. */
                flow: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is done. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    "flush-macs": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The link's or stub's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is done. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    "list-macs": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The link's or stub's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Address"][];
                };
            };
        };
    };
    "list-vnics": {
        parameters: {
            query?: {
                /** @description Names and patterns such as `fw-*`, separated by commas; without any, all are listed. */
                name?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VnicObject"][];
                };
            };
        };
    };
    "create-vnic": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["VnicObject"];
            };
        };
        responses: {
            /** @description It is made. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VnicObject"];
                };
            };
        };
    };
    "show-vnic": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The VNIC's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VnicObject"];
                };
            };
        };
    };
    "put-vnic": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The VNIC's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["VnicObject"] | {
                    /**
                     * @description The IP addresses of its interface, with their prefixes.
                     * @example [
                     *       "10.0.0.2/24"
                     *     ]
                     */
                    addresses?: string[];
                    guest?: components["schemas"]["OnDemand"] | null;
                    /** @description Whether it is in the host's namespace. */
                    host?: boolean;
                    /** @description The interface's name in the namespace or on the host; default: the VNIC's. */
                    interface?: string | null;
                    /** @description The stub or link that it is on. */
                    link: string;
                    /**
                     * @description Its Ethernet address; default: in a wire, derived from the names, else random.
                     * @example 02:00:00:00:00:01
                     */
                    mac?: string | null;
                    /** @description Its name. */
                    name?: string;
                    /** @description The network namespace that it is in: a name (`ip netns`), or a path. */
                    namespace?: string | null;
                    /** @description The user NSM that has it: it is made with the NSM. */
                    nsm?: string | null;
                    /** @description Speed, delay, loss, VLAN, protection and so on. */
                    properties?: components["schemas"]["PortProperties"];
                    status?: components["schemas"]["VnicStatus"];
                    /** @description The socket where a vhost-user frontend connects. */
                    "vhost-user"?: string | null;
                };
            };
        };
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VnicObject"];
                };
            };
        };
    };
    "delete-vnic": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The VNIC's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is done. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    "patch-vnic": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The VNIC's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": Record<string, unknown>;
            };
        };
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VnicObject"];
                };
            };
        };
    };
    "list-wires": {
        parameters: {
            query?: {
                /** @description Names and patterns such as `fw-*`, separated by commas; without any, all are listed. */
                name?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WireObject"][];
                };
            };
        };
    };
    "show-wire": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The wire's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WireObject"];
                };
            };
        };
    };
    "apply-wire": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The wire's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["WireObject"] | {
                    /** @description Programs that the node runs, whose sockets NSMs serve. */
                    app?: {
                        [key: string]: components["schemas"]["Application"];
                    };
                    /** @description A description for people. */
                    description?: string;
                    /** @description Stubs and links of the node that it uses, and neither makes nor removes. */
                    existing?: string[];
                    /** @description Traffic classes on links and stubs. */
                    flow?: {
                        [key: string]: components["schemas"]["Flow"];
                    };
                    /** @description Network functions. */
                    guest?: {
                        [key: string]: components["schemas"]["Guest"];
                    };
                    /** @description Switches with a NIC: interfaces of the host that are attached. */
                    link?: {
                        [key: string]: components["schemas"]["Link"];
                    };
                    /** @description Its name. */
                    name?: string;
                    /** @description Hosts that are network namespaces. */
                    namespace?: {
                        [key: string]: components["schemas"]["Namespace"];
                    };
                    /** @description Network stack modules. */
                    nsm?: {
                        [key: string]: components["schemas"]["Nsm"];
                    };
                    /** @description Wires between switches. */
                    patch?: {
                        [key: string]: components["schemas"]["Patch"];
                    };
                    status?: components["schemas"]["WireStatus"];
                    /** @description Switches without a NIC, and their properties. */
                    stub?: {
                        [key: string]: components["schemas"]["Stub"];
                    };
                    /** @description Flow tables of switches that work by one, by the switches' names. */
                    table?: {
                        [key: string]: components["schemas"]["Table"];
                    };
                    /** @description Virtual NICs. */
                    vnic?: {
                        [key: string]: components["schemas"]["Vnic"];
                    };
                    /** @description Its name. */
                    wire: string;
                };
            };
        };
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WireChange"];
                };
            };
        };
    };
    "delete-wire": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The wire's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is done. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    "compare-wire": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The wire's name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["WireObject"] | {
                    /** @description Programs that the node runs, whose sockets NSMs serve. */
                    app?: {
                        [key: string]: components["schemas"]["Application"];
                    };
                    /** @description A description for people. */
                    description?: string;
                    /** @description Stubs and links of the node that it uses, and neither makes nor removes. */
                    existing?: string[];
                    /** @description Traffic classes on links and stubs. */
                    flow?: {
                        [key: string]: components["schemas"]["Flow"];
                    };
                    /** @description Network functions. */
                    guest?: {
                        [key: string]: components["schemas"]["Guest"];
                    };
                    /** @description Switches with a NIC: interfaces of the host that are attached. */
                    link?: {
                        [key: string]: components["schemas"]["Link"];
                    };
                    /** @description Its name. */
                    name?: string;
                    /** @description Hosts that are network namespaces. */
                    namespace?: {
                        [key: string]: components["schemas"]["Namespace"];
                    };
                    /** @description Network stack modules. */
                    nsm?: {
                        [key: string]: components["schemas"]["Nsm"];
                    };
                    /** @description Wires between switches. */
                    patch?: {
                        [key: string]: components["schemas"]["Patch"];
                    };
                    status?: components["schemas"]["WireStatus"];
                    /** @description Switches without a NIC, and their properties. */
                    stub?: {
                        [key: string]: components["schemas"]["Stub"];
                    };
                    /** @description Flow tables of switches that work by one, by the switches' names. */
                    table?: {
                        [key: string]: components["schemas"]["Table"];
                    };
                    /** @description Virtual NICs. */
                    vnic?: {
                        [key: string]: components["schemas"]["Vnic"];
                    };
                    /** @description Its name. */
                    wire: string;
                };
            };
        };
        responses: {
            /** @description The answer. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WireChange"];
                };
            };
        };
    };
}
