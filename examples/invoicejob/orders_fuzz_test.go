package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold-go/leasehold/internal/pgtest"
)

// FuzzOrders: any two files are refused with the file, the line and a reason, or are orders whose invoices PostgreSQL adds up
// to what fractions give.
func FuzzOrders(f *testing.F) {
	f.Add(goodOrders, goodLines)
	f.Add("\ufeff"+goodOrders, strings.ReplaceAll(goodLines, "\n", "\r\n"))
	for _, lines := range []string{
		"orderID,productID,unitPrice,quantity,discount\n1,1,0.005,1,0\n2,1,0.015,1,0\n", // halves of a cent
		"orderID,productID,unitPrice,quantity,discount\n1,1,999999999999.999999999999,2147483647,0.999999999999\n2,1,.5,1,1.000\n",
		"orderID,productID,unitPrice,quantity,discount\n1,1,1,1,0\n1,2,1,1,0\n1,01,1,1,0\n2,1,1,1,0\n",
		"orderID,productID,unitPrice,quantity,discount\n1,1,0.005,1,0\n1,2,0.005,1,0\n2,1,0.10,1,0.15\n2,2,0.10,1,0.15\n", // rounded once an invoice
		"discount,quantity,unitPrice,productID,orderID\n0.15,10,9.80,7,2\n0,1,1,1,1\n",
		"orderID,productID,unitPrice,quantity,discount\n1,7,\"14\n.00\",12,0\n", "orderID,orderID\n", "\n\n\n", "\"", "a\x00b", "\xff\xfe",
		"orderID,productID,unitPrice,quantity,discount\n1,7,14,00,12,0\n", "orderID,productID,unitPrice,quantity,discount\n1,7,1e3,NaN,-0\n",
	} {
		f.Add(goodOrders, lines)
	}
	for _, orders := range []string{
		"", "orderID,customerID,orderDate,shipAddress\n1,A,0001-01-01,Rua, 67\n2,B,9999-12-31,x\n", "orderID,customerID,orderDate\n1,\"A\"\"\",2026-01-01T23:59:59Z\n2,\u2028,2026-02-29\n",
		"orderID,customerID,orderDate\n4611686018427387904,A,2026-01-01\n", "shipAddress,orderID,customerID,orderDate\nx,1,A,2026-01-01\n", "customerID,,orderID,,orderDate\nA,,1,,2026-01-01\n",
	} {
		f.Add(orders, goodLines)
	}
	dsn, _ := pgtest.Schema(f)
	pool := pgtest.Pool(f, dsn)
	f.Fuzz(func(t *testing.T, orders, lines string) {
		list, err := readText(orders, lines)
		if err != nil {
			require.Nil(t, list)
			var row *rowError
			require.True(t, errors.As(err, &row), "%v", err)
			require.Contains(t, []string{"o.csv", "l.csv"}, row.File)
			text := map[string]string{"o.csv": orders, "l.csv": lines}[row.File]
			require.Positive(t, row.Row)
			require.LessOrEqual(t, row.Row, strings.Count(text, "\n")+1, "a line of the file: %v", err)
			require.NotEmpty(t, row.Err.Error())
			return
		}
		require.NotEmpty(t, list)
		in := newColumns(list)
		var total, gross string
		err = pool.QueryRow(t.Context(), `
SELECT sum(total)::text, sum(gross)::text
FROM (
    SELECT
`+amounts+`
    FROM `+incomingLines+` AS l
    JOIN `+strings.NewReplacer("$1", "$6", "$2", "$7", "$3", "$8").Replace(incomingOrders)+` AS o USING (order_id)
    GROUP BY order_id
) AS i (gross, total)`,
			in.orderIDs, in.products, in.prices, in.quantities, in.discounts, in.ids, in.customers, in.dates).Scan(&total, &gross)
		require.NoError(t, err)
		wantTotal, wantGross := expected(t, list)
		require.Equal(t, wantTotal, total)
		require.Equal(t, wantGross, gross)
	})
}

// FuzzOrdersWritten: orders that were written as CSV, in whatever dress, are read as what they were.
func FuzzOrdersWritten(f *testing.F) {
	f.Add("ANNA", uint32(7), uint16(1400), int32(12), uint8(15), uint8(0))
	f.Add("a,\"b\"", uint32(0), uint16(1), int32(2147483647), uint8(100), uint8(0xff))
	f.Add("x\ny", uint32(4294967295), uint16(65535), int32(1), uint8(0), uint8(0xaa))
	f.Add("Rua do Paço", uint32(1), uint16(0), int32(1), uint8(99), uint8(0x55))
	f.Fuzz(func(t *testing.T, customer string, product uint32, cents uint16, quantity int32, discount, dress uint8) {
		customer = strings.ReplaceAll(customer, "\r", "") // A CR before LF is part of the line's end.
		if customer != strings.TrimSpace(customer) || customer == "" || customer == "NULL" {
			return
		}
		want := []order{{ID: 1, Customer: customer, Date: "2026-01-02", row: 2, Lines: []line{{
			int64(product) + 1, decimal(fmt.Sprintf("%d.%02d", cents/100, cents%100)), max(quantity, 1), decimal(fmt.Sprintf("%d.%02d", discount%101/100, discount%101%100)),
		}}}}
		l := want[0].Lines[0]
		orders := written(t, dress, []string{"orderID", "customerID", "orderDate"}, []string{"1", customer, "2026-01-02"})
		lines := written(t, dress>>2, []string{"orderID", "productID", "unitPrice", "quantity", "discount"},
			[]string{"1", fmt.Sprint(l.Product), string(l.Price), fmt.Sprint(l.Quantity), string(l.Discount)})
		got, err := readText(orders, lines)
		if err != nil {
			require.ErrorContains(t, err, "is not UTF-8 text")
			return
		}
		require.Equal(t, want, got, "%q\n%q", orders, lines)
	})
}

// written is a file with a header and a row: columns turned around, a column more, CRLF, a byte order mark, as the bits say.
func written(t *testing.T, dress uint8, header, row []string) string {
	t.Helper()
	if dress&1 != 0 {
		for i, j := 0, len(header)-1; i < j; i, j = i+1, j-1 {
			header[i], header[j], row[i], row[j] = header[j], header[i], row[j], row[i]
		}
	}
	if dress&2 != 0 {
		header, row = append(header, "note"), append(row, "a, \"b\"\nc")
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	w.UseCRLF = dress&4 != 0
	require.NoError(t, w.WriteAll([][]string{header, row}))
	if dress&8 != 0 {
		return "\ufeff" + b.String()
	}
	return b.String()
}
