package ingress

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestLinger(t *testing.T) {
	begin := func(t *testing.T) (ctx context.Context, end func()) {
		t.Helper()
		s := &Server{}
		s.life, s.end = context.WithCancel(t.Context())
		ctx, drop := context.WithCancel(context.Background())
		s.linger(ctx, drop)
		synctest.Wait()
		if ctx.Err() != nil {
			t.Fatal("ended at once")
		}
		return ctx, s.end
	}
	t.Run("until its time is up", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, end := begin(t)
			defer end()
			time.Sleep(lingerFor - time.Second)
			if ctx.Err() != nil {
				t.Error("ended too early")
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if ctx.Err() == nil {
				t.Error("did not end")
			}
		})
	})
	t.Run("until the server ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, end := begin(t)
			end()
			synctest.Wait()
			if ctx.Err() == nil {
				t.Error("did not end")
			}
		})
	})
}
