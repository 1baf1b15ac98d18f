package pgserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	dockercontainer "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/modules/postgres"
)

// image is what the project's users run, small.
const image = "postgres:17-alpine"

// container is a server in Docker. Its port on the host is chosen by us: one that Docker chose would be another one
// after a restart.
type container struct {
	running *postgres.PostgresContainer
	docker  *testcontainers.DockerClient
	address string // host:port
	paused  bool
}

func startDocker(ctx context.Context, options Options) (_ *Server, err error) {
	// Parts of testcontainers-go panic where there is no engine.
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("no engine: %v", reason)
		}
	}()
	if len(options.Environment) > 0 || options.WAL != "" || options.WALSegment != 0 {
		return nil, errors.New("a server in a container has no environment and no WAL folder of ours")
	}
	docker, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return nil, fmt.Errorf("no engine: %w", err)
	}
	if _, err := docker.Ping(ctx, client.PingOptions{}); err != nil {
		return nil, errors.Join(fmt.Errorf("no engine: %w", err), docker.Close())
	}
	options.progress("starting " + image + " in Docker, which may have to fetch it first")
	c := &container{docker: docker}
	for attempt := 1; ; attempt++ {
		port, err := freePort()
		if err != nil {
			return nil, errors.Join(err, docker.Close())
		}
		if err = c.create(ctx, port, options); err == nil {
			return newServer(c), nil
		}
		err = errors.Join(err, c.terminate())
		if attempt == 3 || ctx.Err() != nil || portFree(port) {
			return nil, errors.Join(err, docker.Close())
		}
	}
}

// create starts the ordinary image by the ordinary call, and waits by connecting: while the image initializes itself
// its server listens on no port.
func (c *container) create(ctx context.Context, port int, options Options) error {
	settings := options.settings()
	if options.Durable {
		settings["fsync"] = "on" // the module turns it off
	}
	var arguments []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		arguments = append(arguments, "-c", name+"="+settings[name])
	}
	var err error
	c.running, err = postgres.Run(ctx, image,
		testcontainers.WithLogger(log.NewNoopLogger()),
		testcontainers.WithCmdArgs(arguments...),
		testcontainers.WithEnv(map[string]string{"POSTGRES_INITDB_ARGS": "--encoding=UTF8 --no-locale --no-sync"}),
		testcontainers.WithHostConfigModifier(func(config *dockercontainer.HostConfig) {
			config.PortBindings = network.PortMap{
				network.MustParsePort("5432/tcp"): {{HostPort: strconv.Itoa(port)}},
			}
		}))
	if err != nil {
		return err
	}
	host, err := c.running.Host(ctx)
	if err != nil {
		return err
	}
	c.address = net.JoinHostPort(host, strconv.Itoa(port))
	return c.awaitReady(ctx)
}

func (c *container) dsn() string {
	return "postgres://postgres:postgres@" + c.address + "/postgres?sslmode=disable"
}

func (c *container) source() string { return "Docker " + image }

func (c *container) awaitReady(ctx context.Context) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		conn, err := pgx.Connect(attempt, c.dsn())
		if err == nil {
			err = conn.Close(attempt)
		}
		cancel()
		if err == nil {
			return nil
		}
		state, stateErr := c.state(ctx)
		if stateErr == nil && !state.Running {
			return fmt.Errorf("the container ended with code %d: %w", state.ExitCode, err)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

func (c *container) state(ctx context.Context) (*dockercontainer.State, error) {
	result, err := c.docker.ContainerInspect(ctx, c.id(), client.ContainerInspectOptions{})
	if err != nil {
		return nil, err
	}
	return result.Container.State, nil
}

func (c *container) id() string { return c.running.GetContainerID() }

func (c *container) start(ctx context.Context) error {
	if _, err := c.docker.ContainerStart(ctx, c.id(), client.ContainerStartOptions{}); err != nil {
		return err
	}
	return c.awaitReady(ctx)
}

func (c *container) stop(ctx context.Context, mode Mode) error {
	if err := c.resume(); err != nil && !errors.Is(err, errStopped) {
		return err
	}
	signal := "SIGINT"
	if mode == Immediate {
		signal = "SIGQUIT"
	}
	return c.end(ctx, signal)
}

// kill kills the first process of the container, and with it all others.
func (c *container) kill() error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return c.end(ctx, "SIGKILL")
}

// end returns when the container has ended.
func (c *container) end(ctx context.Context, signal string) error {
	state, err := c.state(ctx)
	if err != nil || !state.Running {
		return err
	}
	ended := c.docker.ContainerWait(ctx, c.id(), client.ContainerWaitOptions{Condition: dockercontainer.WaitConditionNotRunning})
	if _, err := c.docker.ContainerKill(ctx, c.id(), client.ContainerKillOptions{Signal: signal}); err != nil {
		return err
	}
	select {
	case <-ended.Result:
		c.paused = false
		return nil
	case err := <-ended.Error:
		return err
	}
}

func (c *container) pause() error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	state, err := c.state(ctx)
	switch {
	case err != nil:
		return err
	case !state.Running:
		return errStopped
	case c.paused:
		return nil
	}
	_, err = c.docker.ContainerPause(ctx, c.id(), client.ContainerPauseOptions{})
	c.paused = err == nil
	return err
}

func (c *container) resume() error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	state, err := c.state(ctx)
	switch {
	case err != nil:
		return err
	case !state.Running:
		return errStopped
	case !c.paused:
		return nil
	}
	_, err = c.docker.ContainerUnpause(ctx, c.id(), client.ContainerUnpauseOptions{})
	c.paused = err != nil
	return err
}

func (c *container) remove() error { return errors.Join(c.terminate(), c.docker.Close()) }

// terminate removes the container and its data. It does not need a server that is shut down in order.
func (c *container) terminate() error {
	if c.running == nil {
		return nil
	}
	err := testcontainers.TerminateContainer(c.running, testcontainers.StopTimeout(0))
	c.running = nil
	return err
}
