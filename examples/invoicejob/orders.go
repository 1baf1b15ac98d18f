package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// An order is what an invoice is made of.
type order struct {
	ID       int64
	Customer string
	Date     string // as 1996-07-04
	Lines    []line
	row      int // line of the file, for messages
}

// A line is one position of an order.
type line struct {
	Product  int64
	Price    decimal // of one unit
	Quantity int32
	Discount decimal // 0 to 1: 0.15 is 15 %
}

// The columns that are read. Others may stand in the file, in any order; the first row names them.
var (
	orderColumns = []string{"orderID", "customerID", "orderDate"}
	lineColumns  = []string{"orderID", "productID", "unitPrice", "quantity", "discount"}
)

// A rowError says which row of which file cannot be used and why.
type rowError struct {
	File string
	Row  int
	Err  error
}

func (e *rowError) Error() string { return fmt.Sprintf("%s:%d: %v", e.File, e.Row, e.Err) }
func (e *rowError) Unwrap() error { return e.Err }

// readOrders reads both files whole and refuses them at the first row that cannot be used, so that nothing reaches the
// database unless everything can.
func readOrders(ordersFile string, orders io.Reader, linesFile string, lines io.Reader) ([]order, error) {
	list, err := readOrderRows(ordersFile, orders)
	if err != nil {
		return nil, err
	}
	if err := readLineRows(linesFile, lines, ordersFile, list); err != nil {
		return nil, err
	}
	for _, o := range list {
		if len(o.Lines) == 0 {
			return nil, &rowError{ordersFile, o.row, fmt.Errorf("order %d has no line in %s", o.ID, linesFile)}
		}
	}
	return list, nil
}

func readOrderRows(file string, in io.Reader) ([]order, error) {
	t, err := openTable(file, in, orderColumns)
	if err != nil {
		return nil, err
	}
	t.ragged = t.surplusIsHarmless()
	var list []order
	seen := map[int64]int{}
	for {
		o, err := readOrder(t)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if first, twice := seen[o.ID]; twice {
			return nil, t.refuse("order %d is there twice: first in line %d", o.ID, first)
		}
		seen[o.ID] = o.row
		list = append(list, o)
	}
	if len(list) == 0 {
		return nil, t.refuse("no order after the header")
	}
	return list, nil
}

func readOrder(t *table) (order, error) {
	if err := t.next(); err != nil {
		return order{}, err
	}
	id, err := t.whole("orderID", 1, 1<<62)
	if err != nil {
		return order{}, err
	}
	customer := t.text("customerID")
	if customer == "" || customer == "NULL" {
		return order{}, t.refuse("customerID is empty")
	}
	if !utf8.ValidString(customer) || strings.ContainsRune(customer, 0) {
		return order{}, t.refuse("customerID %q is not UTF-8 text", customer)
	}
	date, err := parseDate(t.text("orderDate"))
	if err != nil {
		return order{}, t.refuse("orderDate %q: %v", t.text("orderDate"), err)
	}
	return order{ID: id, Customer: customer, Date: date, row: t.row}, nil
}

// readLineRows adds the lines to their orders.
func readLineRows(file string, in io.Reader, ordersFile string, orders []order) error {
	t, err := openTable(file, in, lineColumns)
	if err != nil {
		return err
	}
	byID := make(map[int64]*order, len(orders))
	for i := range orders {
		byID[orders[i].ID] = &orders[i]
	}
	type key struct{ order, product int64 }
	seen := map[key]int{}
	for {
		id, l, err := readLine(t)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		o, known := byID[id]
		if !known {
			return t.refuse("order %d is not in %s", id, ordersFile)
		}
		// A line copied by mistake would be billed twice, and nobody would see it.
		if first, twice := seen[key{id, l.Product}]; twice {
			return t.refuse("product %d of order %d is there twice: first in line %d", l.Product, id, first)
		}
		seen[key{id, l.Product}] = t.row
		o.Lines = append(o.Lines, l)
	}
}

func readLine(t *table) (id int64, l line, err error) {
	if err = t.next(); err != nil {
		return 0, line{}, err
	}
	if id, err = t.whole("orderID", 1, 1<<62); err != nil {
		return 0, line{}, err
	}
	if l.Product, err = t.whole("productID", 1, 1<<62); err != nil {
		return 0, line{}, err
	}
	if l.Price, err = t.decimal("unitPrice"); err != nil {
		return 0, line{}, err
	}
	quantity, err := t.whole("quantity", 1, 1<<31-1)
	if err != nil {
		return 0, line{}, err
	}
	l.Quantity = int32(quantity)
	if l.Discount, err = t.decimal("discount"); err != nil {
		return 0, line{}, err
	}
	if l.Discount.above(1) {
		return 0, line{}, t.refuse("discount %q is above 1: 0.15 means 15 %%", l.Discount)
	}
	return id, l, nil
}

// parseDate accepts 1996-07-04, with or without a time of day, which is dropped.
func parseDate(text string) (string, error) {
	for _, layout := range []string{time.DateOnly, time.DateTime, "2006-01-02T15:04:05", time.RFC3339} {
		if date, err := time.Parse(layout, text); err == nil && date.Year() > 0 {
			return date.Format(time.DateOnly), nil
		}
	}
	return "", errors.New("want a date such as 1996-07-04")
}

// A table is a CSV file that is read row by row, by the names in its first row.
type table struct {
	file   string
	rows   *csv.Reader
	names  []string
	column map[string]int
	ragged bool // rows may have more fields than names
	fields []string
	row    int
}

// openTable reads the header. A byte order mark and CRLF are tolerated.
func openTable(file string, in io.Reader, columns []string) (*table, error) {
	t := &table{file: file, rows: csv.NewReader(in), column: map[string]int{}, row: 1}
	t.rows.FieldsPerRecord = -1 // counted in next, which knows better what to say
	t.rows.ReuseRecord = true
	header, err := t.rows.Read()
	if errors.Is(err, io.EOF) {
		return nil, t.refuse("the file is empty: want a header with %s", strings.Join(columns, ", "))
	}
	if err != nil {
		return nil, t.explain(err)
	}
	t.names = slices.Clone(header)
	t.names[0] = strings.TrimPrefix(t.names[0], "\ufeff")
	for i, name := range t.names {
		t.names[i] = strings.TrimSpace(name)
		if _, twice := t.column[t.names[i]]; twice && slices.Contains(columns, t.names[i]) {
			return nil, t.refuse("column %s is there twice", t.names[i])
		}
		t.column[t.names[i]] = i
	}
	for _, name := range columns {
		if _, found := t.column[name]; !found {
			return nil, t.refuse("column %s is missing: the header has %q", name, strings.Join(t.names, ","))
		}
	}
	return t, nil
}

// surplusIsHarmless tells whether rows with more fields than the header can be read without guessing.
//
// Northwind's orders have addresses with commas and without quotes: "Rua do Paço, 67". Such a comma moves every field to
// its right. Nothing that is read is moved if it all stands left of the address; and a comma further to the left would show,
// because it would move orderDate, the rightmost column that is read, and what came to stand there would be no date.
func (t *table) surplusIsHarmless() bool {
	address, found := t.column["shipAddress"]
	date := t.column["orderDate"]
	return found && t.column["orderID"] < date && t.column["customerID"] < date && date < address
}

// next reads one row.
func (t *table) next() error {
	fields, err := t.rows.Read()
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	if err != nil {
		return t.explain(err)
	}
	t.fields = fields
	t.row, _ = t.rows.FieldPos(0)
	if n := len(t.names); len(fields) < n || len(fields) > n && !t.ragged {
		return t.refuse("%d fields, but the header has %d", len(fields), n)
	}
	return nil
}

func (t *table) text(column string) string { return strings.TrimSpace(t.fields[t.column[column]]) }

func (t *table) whole(column string, least, most int64) (int64, error) {
	text := t.text(column)
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, t.refuse("%s %q is not a whole number", column, text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, t.refuse("%s %q must be from %d to %d", column, text, least, most)
	}
	return n, nil
}

func (t *table) decimal(column string) (decimal, error) {
	d, err := parseDecimal(t.text(column))
	if err != nil {
		return "", t.refuse("%s %q: %v", column, t.text(column), err)
	}
	return d, nil
}

func (t *table) refuse(format string, args ...any) error {
	return &rowError{t.file, t.row, fmt.Errorf(format, args...)}
}

// explain gives a broken quote its place.
func (t *table) explain(err error) error {
	var broken *csv.ParseError
	if errors.As(err, &broken) {
		return &rowError{t.file, broken.Line, broken.Err}
	}
	return fmt.Errorf("%s: %w", t.file, err)
}
