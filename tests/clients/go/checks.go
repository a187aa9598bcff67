// What a scenario says of the answers it gets; each panics when it is not so.
package main

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func check(isSo bool, format string, values ...any) {
	if !isSo {
		panic(fmt.Sprintf(format, values...))
	}
}

func equal[T any](got, want T) {
	check(reflect.DeepEqual(got, want), "got %#v, want %#v", got, want)
}

// refused: the call failed with this class, this code of the Query protocol, this status.
func refused[Class error](err error, code string, status int) {
	var typed Class
	check(errors.As(err, &typed), "got %T %v, want %T", err, err, typed)
	refusedWith(err, code, status)
}

// refusedWith is for errors that the SDK has no class for.
func refusedWith(err error, code string, status int) {
	var failure smithy.APIError
	check(errors.As(err, &failure), "got %v, want %s", err, code)
	equal(failure.ErrorCode(), code)
	var response *awshttp.ResponseError
	check(errors.As(err, &response), "no answer: %v", err)
	equal(http.StatusText(response.HTTPStatusCode()), http.StatusText(status))
}

// until looks until it is so.
func until(look func() bool) {
	end := time.Now().Add(60 * time.Second)
	for !look() {
		check(time.Now().Before(end), "not within 60 s")
		time.Sleep(20 * time.Millisecond)
	}
}
