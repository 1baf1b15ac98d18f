package fencing_test

import "testing"

func TestMain(m *testing.M) { pgtest.Main(m) }
