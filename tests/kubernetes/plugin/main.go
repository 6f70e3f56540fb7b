// device-plugin NAME MACHINE LIBRARIES STATE
//
// Offers simulated GPUs to a kubelet under that name: those that stand in the
// folder MACHINE (tests/standin/standin.h), by their UUIDs.  One that is lost is
// not healthy.  A container gets the libraries of the folder LIBRARIES in place
// of the vendor's, and a folder below STATE in which its devices are all there
// is; it is its own, since each container counts its processes from one.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	every     = 200 * time.Millisecond
	libraries = "/usr/local/lib/simulated-gpu"
	driver    = "/run/simulated-gpu/driver"
	machine   = "/run/simulated-gpu/machine"
)

type plugin struct {
	api.UnimplementedDevicePluginServer
	name, machine, libraries, state string
	socket                          string

	lock  sync.Mutex
	files map[string]string // of each device that was ever seen
}

// The value of a key in a file of key=value lines.
func value(text, key string) string {
	for _, line := range strings.Split(text, "\n") {
		if v, ok := strings.CutPrefix(line, key+"="); ok {
			return v
		}
	}
	return ""
}

func (p *plugin) devices() []*api.Device {
	p.lock.Lock()
	defer p.lock.Unlock()
	var all []*api.Device
	files, _ := filepath.Glob(p.machine + "/gpu[0-9]*")
	sort.Strings(files)
	for _, f := range files {
		text, err := os.ReadFile(f)
		id := value(string(text), "uuid")
		if err != nil || id == "" || strings.HasSuffix(f, ".new") {
			continue
		}
		p.files[id] = filepath.Base(f)
		health := api.Healthy
		if lost := value(string(text), "lost"); lost != "" && lost != "0" {
			health = api.Unhealthy
		}
		all = append(all, &api.Device{ID: id, Health: health})
	}
	return all
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (
	*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

// All there are, and again whenever that changes.
func (p *plugin) ListAndWatch(_ *api.Empty,
	to grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	said := ""
	for {
		all := p.devices()
		if now := fmt.Sprint(all); now != said {
			log.Printf("%d simulated devices", len(all))
			if err := to.Send(&api.ListAndWatchResponse{
				Devices: all}); err != nil {
				return err
			}
			said = now
		}
		select {
		case <-to.Context().Done():
			return nil
		case <-time.After(every):
		}
	}
}

// What a container's driver is: its devices, counted from 0, and what all have;
// links to what stands on the machine, which changes.
func (p *plugin) folder(ids []string) (string, error) {
	own, err := os.MkdirTemp(p.state, "container.")
	if err != nil {
		return "", err
	}
	links := map[string]string{"driver": "driver", "faults": "faults",
		"hold": "hold"}
	for k, id := range ids {
		links[fmt.Sprintf("gpu%d", k)] = p.files[id]
	}
	for name, to := range links {
		if err := os.Symlink(machine+"/"+to, own+"/"+name); err != nil {
			return "", err
		}
	}
	// Containers run as anybody.
	return own, os.Chmod(own, 0o777)
}

func (p *plugin) container(ids []string) (*api.ContainerAllocateResponse,
	error) {
	p.lock.Lock()
	defer p.lock.Unlock()
	sort.Slice(ids, func(i, k int) bool {
		return p.files[ids[i]] < p.files[ids[k]]
	})
	own, err := p.folder(ids)
	if err != nil {
		return nil, err
	}
	uuids := strings.Join(ids, ",")
	log.Printf("a container has %s, simulated", uuids)
	return &api.ContainerAllocateResponse{
		Envs: map[string]string{
			"NVIDIA_VISIBLE_DEVICES": uuids,
			"CUDA_VISIBLE_DEVICES":   uuids,
			"LD_LIBRARY_PATH":        libraries,
			"WEIR_STANDIN":           driver,
		},
		Annotations: map[string]string{"weir.dev/gpus": "simulated"},
		Mounts: []*api.Mount{
			{ContainerPath: driver, HostPath: own},
			{ContainerPath: machine, HostPath: p.machine, ReadOnly: true},
			p.library("libcuda.so.1"), p.library("libnvidia-ml.so.1"),
		},
	}, nil
}

func (p *plugin) library(name string) *api.Mount {
	return &api.Mount{ContainerPath: libraries + "/" + name,
		HostPath: p.libraries + "/" + name, ReadOnly: true}
}

func (p *plugin) Allocate(_ context.Context, q *api.AllocateRequest) (
	*api.AllocateResponse, error) {
	r := &api.AllocateResponse{}
	for _, c := range q.ContainerRequests {
		one, err := p.container(c.DevicesIds)
		if err != nil {
			return nil, err
		}
		r.ContainerResponses = append(r.ContainerResponses, one)
	}
	return r, nil
}

func (p *plugin) register() error {
	conn, err := grpc.NewClient("unix:"+api.KubeletSocket,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	within, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err = api.NewRegistrationClient(conn).Register(within,
		&api.RegisterRequest{Version: api.Version, ResourceName: p.name,
			Endpoint: filepath.Base(p.socket)})
	return err
}

// Serves until our socket is gone: a kubelet that starts removes all of them.
func (p *plugin) serve() error {
	_ = os.Remove(p.socket)
	listener, err := net.Listen("unix", p.socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	defer server.Stop()
	api.RegisterDevicePluginServer(server, p)
	go func() { _ = server.Serve(listener) }()
	if err := p.register(); err != nil {
		return err
	}
	log.Printf("%s is offered, simulated", p.name)
	for {
		if _, err := os.Stat(p.socket); err != nil {
			return err
		}
		time.Sleep(every)
	}
}

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr,
			"usage: device-plugin NAME MACHINE LIBRARIES STATE")
		os.Exit(2)
	}
	p := &plugin{name: os.Args[1], machine: os.Args[2], libraries: os.Args[3],
		state: os.Args[4], socket: api.DevicePluginPath + "simulated-" +
			strings.ReplaceAll(os.Args[1], "/", "-") + ".sock",
		files: map[string]string{}}
	for {
		log.Print(p.serve())
		time.Sleep(every)
	}
}
